// The specification of faults: what is accepted, when rules hit, what the report says.
#include "sim/faults.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace npu::sim {
namespace {

Faults parse(const char* specification) {
    auto faults = Faults::parse(specification);
    EXPECT_TRUE(faults.ok()) << (faults.ok() ? "" : faults.error().message);
    return faults.ok() ? std::move(faults).value() : Faults{};
}

// The opportunities, counted from 1, at which the fault happens.
std::vector<int> hits(const Faults& faults, FaultKind kind, int opportunities, unsigned core = 0) {
    std::vector<int> list;
    for (int i = 1; i <= opportunities; ++i) {
        if (faults.hits(kind, core)) {
            list.push_back(i);
        }
    }
    return list;
}

TEST(Faults, NeverHappenWithoutRules) {
    EXPECT_TRUE(hits({}, FaultKind::time_out, 100).empty());
    EXPECT_TRUE(hits(parse(""), FaultKind::time_out, 100).empty());
    EXPECT_TRUE(hits(parse(" \t"), FaultKind::time_out, 100).empty());
    EXPECT_EQ(parse("seed=9").report(), "");
    EXPECT_EQ(Faults{}.report(), "");
}

TEST(Faults, HappenAtTheOpportunitiesOfTheirRule) {
    using List = std::vector<int>;
    EXPECT_EQ(hits(parse("time-out"), FaultKind::time_out, 3), (List{1, 2, 3}));
    EXPECT_EQ(hits(parse("time-out@at=2"), FaultKind::time_out, 5), (List{2}));
    EXPECT_EQ(hits(parse("time-out@every=3"), FaultKind::time_out, 10), (List{3, 6, 9}));
    EXPECT_EQ(hits(parse("time-out@every=3@from=5"), FaultKind::time_out, 10), (List{6, 9}));
    EXPECT_EQ(hits(parse("time-out@every=3@from=5@times=1"), FaultKind::time_out, 10), (List{6}));
    EXPECT_EQ(hits(parse("time-out@from=4@times=2"), FaultKind::time_out, 10), (List{4, 5}));
    EXPECT_EQ(hits(parse("time-out@at=2,time-out@at=4"), FaultKind::time_out, 10), (List{2, 4}));
    EXPECT_EQ(hits(parse(" time-out @ at=2 , dma-error@at= 1 "), FaultKind::time_out, 10), (List{2}));
    EXPECT_TRUE(hits(parse("time-out"), FaultKind::dma_error, 10).empty());
}

TEST(Faults, KnowEveryKindByItsName) {
    for (const FaultKind kind :
         {FaultKind::job_never_starts, FaultKind::time_out, FaultKind::lost_interrupt, FaultKind::dma_error,
          FaultKind::no_memory, FaultKind::iova_full, FaultKind::bad_address, FaultKind::stale_output,
          FaultKind::core_gone, FaultKind::reset_fails}) {
        EXPECT_TRUE(parse(fault_name(kind)).hits(kind)) << fault_name(kind);
    }
}

TEST(Faults, CountOnlyTheCoreThatIsNamed) {
    const Faults faults = parse("core-gone@core=1@at=2");
    EXPECT_TRUE(hits(faults, FaultKind::core_gone, 10, 0).empty());
    EXPECT_EQ(hits(faults, FaultKind::core_gone, 10, 1), (std::vector<int>{2}));
    EXPECT_EQ(faults.report(), "core-gone@core=1@at=2: 1 of 10 opportunities\n");
}

TEST(Faults, HappenAtTheirRateAndRepeatWithTheirSeed) {
    const auto once = hits(parse("stale-output@rate=0.25,seed=7"), FaultKind::stale_output, 4000);
    EXPECT_EQ(once, hits(parse("seed=7,stale-output@rate=0.25"), FaultKind::stale_output, 4000));
    EXPECT_NE(once, hits(parse("stale-output@rate=0.25,seed=8"), FaultKind::stale_output, 4000));
    // Five standard deviations around the mean of a binomial.
    EXPECT_NEAR(static_cast<double>(once.size()), 1000, 5 * 27.4);
    EXPECT_TRUE(hits(parse("stale-output@rate=0"), FaultKind::stale_output, 1000).empty());
    EXPECT_EQ(hits(parse("stale-output@rate=1"), FaultKind::stale_output, 1000).size(), 1000U);
    EXPECT_EQ(hits(parse("stale-output@rate=1e-0@from=990"), FaultKind::stale_output, 1000).size(), 11U);
    const Faults two = parse("stale-output@rate=0.5,time-out@rate=0.5");
    EXPECT_NE(hits(two, FaultKind::stale_output, 200), hits(two, FaultKind::time_out, 200)) << "rules are independent";
}

TEST(Faults, ShareTheirCountersAmongCopiesAndThreads) {
    const Faults faults = parse("no-memory@every=10");
    const Faults copy = faults;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([faults] {
            for (int i = 0; i < 250; ++i) {
                (void)faults.hits(FaultKind::no_memory);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(copy.report(), "no-memory@every=10: 100 of 1000 opportunities\n");
}

TEST(Faults, NameThePartThatCannotBeReadAndWhatIsAccepted) {
    struct Case {
        const char* specification;
        std::vector<const char*> texts;
    };
    for (const Case& one : {
             Case{"explode", {"\"explode\"", "job-never-starts", "reset-fails", "seed=N"}},
             Case{"time-out@at=1,", {"\"\"", "kind"}},
             Case{"time-out@", {"conditions are at=N"}},
             Case{"time-out@when=3", {"\"when=3\"", "every=N", "rate=P"}},
             Case{"time-out@at", {"\"at\"", "whole number"}},
             Case{"time-out@at=0", {"\"at=0\"", "at least 1"}},
             Case{"time-out@at=-1", {"\"at=-1\"", "whole number"}},
             Case{"time-out@every=3x", {"\"every=3x\""}},
             Case{"time-out@every=99999999999999999999", {"whole number"}},
             Case{"time-out@rate=1.5", {"\"rate=1.5\"", "0 to 1"}},
             Case{"time-out@rate=nan", {"0 to 1"}},
             Case{"time-out@rate=", {"0 to 1"}},
             Case{"time-out@core=3", {"\"core=3\"", "0, 1 or 2"}},
             Case{"no-memory@core=1", {"\"core=1\"", "no-memory does not concern a core"}},
             Case{"time-out@at=1@at=2", {"\"at=2\"", "at most once"}},
             Case{"time-out@rate=1@rate=1", {"at most once"}},
             Case{"time-out@at=1@every=2", {"at most one of at, every and rate"}},
             Case{"dma-error,time-out@rate=0.5@at=2", {"\"time-out@rate=0.5@at=2\"", "at most one"}},
             Case{"seed=x", {"\"seed=x\"", "whole number"}},
         }) {
        const auto faults = Faults::parse(one.specification);
        ASSERT_FALSE(faults.ok()) << one.specification;
        EXPECT_EQ(faults.error().code, ErrorCode::invalid_argument);
        for (const char* text : one.texts) {
            EXPECT_NE(faults.error().message.find(text), std::string::npos) << faults.error().message << " / " << text;
        }
        EXPECT_NE(faults.error().message.find("for example"), std::string::npos);
    }
}

}  // namespace
}  // namespace npu::sim
