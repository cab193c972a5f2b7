"""Make running text from the King James Bible and split off held-out chapters.

The text comes from the `bible` program (Debian: bible-kjv, bible-kjv-text),
which prints one verse per line, for example

    Ge1:1 In the beginning God created the heaven and the earth.

Each chapter becomes a heading line, an empty line and one paragraph of prose
without verse numbers.

usage: corpus.py TRAIN_OUT HELDOUT_OUT
"""
import re
import subprocess
import sys

BOOKS = """Genesis;Exodus;Leviticus;Numbers;Deuteronomy;Joshua;Judges;Ruth;
1 Samuel;2 Samuel;1 Kings;2 Kings;1 Chronicles;2 Chronicles;Ezra;Nehemiah;
Esther;Job;Psalm;Proverbs;Ecclesiastes;Song of Solomon;Isaiah;Jeremiah;
Lamentations;Ezekiel;Daniel;Hosea;Joel;Amos;Obadiah;Jonah;Micah;Nahum;
Habakkuk;Zephaniah;Haggai;Zechariah;Malachi;Matthew;Mark;Luke;John;Acts;
Romans;1 Corinthians;2 Corinthians;Galatians;Ephesians;Philippians;
Colossians;1 Thessalonians;2 Thessalonians;1 Timothy;2 Timothy;Titus;
Philemon;Hebrews;James;1 Peter;2 Peter;1 John;2 John;3 John;Jude;
Revelation""".replace("\n", "").split(";")

VERSE = re.compile(r"^(\d?[A-Za-z]+)(\d+):\d+ (.*)$")
HELDOUT_PERIOD = 132    # of every 132 consecutive chapters of the Bible ...
HELDOUT_FIRST = 60      # ... the run that begins at this one ...
HELDOUT_RUN = 4         # ... and has this length is held out


def read_chapters():
    """Return [(heading, [verse, ...]), ...] in the order of the Bible."""
    dump = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], check=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True).stdout
    chapters, names, last = [], iter(BOOKS), (None, None)
    for line in dump.splitlines():
        abbreviation, number, verse = VERSE.match(line).groups()
        if abbreviation != last[0]:
            book = next(names)
        if (abbreviation, number) != last:
            chapters.append((f"{book} {number}", []))
        last = (abbreviation, number)
        chapters[-1][1].append(" ".join(verse.split()))
    assert len(chapters) == 1189 and next(names, None) is None
    return chapters


def is_heldout(index):
    """True if the chapter with this index (0 = Genesis 1) is held out."""
    return 0 <= index % HELDOUT_PERIOD - HELDOUT_FIRST < HELDOUT_RUN


def as_text(chapters):
    """Join chapters into one running text."""
    return "".join(f"{heading}\n\n{' '.join(verses)}\n\n"
                   for heading, verses in chapters)


def main():
    chapters = read_chapters()
    heldout = [c for i, c in enumerate(chapters) if is_heldout(i)]
    train = [c for i, c in enumerate(chapters) if not is_heldout(i)]
    for path, part in zip(sys.argv[1:3], (train, heldout)):
        with open(path, "w") as f:
            f.write(as_text(part))
    print(f"{len(train)} chapters, {len(as_text(train))} characters to train")
    print(f"{len(heldout)} chapters, {len(as_text(heldout))} characters held"
          " out: " + ", ".join(heading for heading, _ in heldout))


if __name__ == "__main__":
    main()
