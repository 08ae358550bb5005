package mount

import (
	"bytes"
	"context"
	"regexp"
)

// interruptedGrowthPattern is all that e2fsck says (its e2fsck/problem.c) of an ext4 whose growth was
// killed: the resize inode, 7, reaches beyond the blocks that the superblock counts, and
// bitmaps and counts are those of the other size. All of it is made again from the inodes;
// none of it is a file. A question on a line of its own follows the line that it is about.
var interruptedGrowthPattern = regexp.MustCompile(`^(` +
	`e2fsck [0-9].*|Pass [1-5]: .*|.*: \*{10} WARNING: Filesystem still has errors \*{10}|.*: \d+/\d+ files \(.*\), \d+/\d+ blocks|` +
	`Illegal block #\d+ \(\d+\) in inode 7\.  IGNORED\.|Too many illegal blocks in inode 7\.|` +
	`Inode 7 has illegal block\(s\)\.  Clear\? no|Inode 7, i_blocks is \d+, should be \d+\.  Fix\? no|Resize inode not valid\.  Recreate\? no|` +
	`(Block|Inode) bitmap differences: ( [-+](\d+|\(\d+--\d+\)))+|(Block bitmap differences: )?Group \d+ (block|inode) bitmap does not match checksum\.|` +
	`Free (blocks|inodes) count wrong( for group #\d+)? \(\d+, counted=\d+\)\.|` +
	`Last group block bitmap uninitialized\.  Fix\? no|Padding at end of (block|inode) bitmap is not set\. Fix\? no|` +
	`Fix\? no|Clear inode\? no|Suppress messages\? no|IGNORED\.)?$`)

var lastPassPattern = regexp.MustCompile(`^Pass 5: `)

// maxLineBytes bounds what is kept of a line: differences of a bitmap are on one.
const maxLineBytes = 1 << 20

// fsckReport reads what e2fsck -n says of a filesystem whose growth was killed.
type fsckReport struct {
	line                   []byte
	otherErrors, completed bool // it says something else; it went through to the end
}

func (r *fsckReport) Write(p []byte) (int, error) {
	n := len(p)
	for !r.otherErrors {
		head, rest, whole := bytes.Cut(p, []byte("\n"))
		r.line = append(r.line, head...)
		if r.otherErrors = len(r.line) > maxLineBytes; r.otherErrors || !whole {
			break
		}
		r.endLine()
		p = rest
	}
	return n, nil
}

func (r *fsckReport) endLine() {
	line := bytes.TrimRight(r.line, " ")
	r.otherErrors = !interruptedGrowthPattern.Match(line)
	r.completed = r.completed || lastPassPattern.Match(line)
	r.line = r.line[:0]
}

func (r *fsckReport) onlyGrowthRemains() bool {
	return r.completed && !r.otherErrors && len(r.line) == 0
}

// hasOnlyGrowthRemains tells whether all that is wrong with a filesystem is what a growth leaves that
// is killed. e2fsck does not say so itself, and with -y it would clear a damaged file, too.
func (m *Mounter) hasOnlyGrowthRemains(ctx context.Context, device string) (bool, error) {
	var report fsckReport
	err := m.runFsckTo(ctx, device, "-n", &report)
	if err != nil && !isUncorrected(err) {
		return false, err
	}
	return report.onlyGrowthRemains(), nil
}
