package mount

import (
	"bytes"
	"context"
	"regexp"
)

// interruptedGrowthPattern matches everything that e2fsck prints (e2fsck/problem.c) about an ext4
// whose growth was killed: the resize inode, 7, reaches beyond the blocks that the superblock
// counts, and bitmaps and counts are those of the other size. All of that is rebuilt from the
// inodes; none of it belongs to a file. A question on a line of its own follows the line that it
// refers to.
var interruptedGrowthPattern = regexp.MustCompile(`^(` +
	`e2fsck [0-9].*|Pass [1-5]: .*|.*: \*{10} WARNING: Filesystem still has errors \*{10}|.*: \d+/\d+ files \(.*\), \d+/\d+ blocks|` +
	`Illegal block #\d+ \(\d+\) in inode 7\.  IGNORED\.|Too many illegal blocks in inode 7\.|` +
	`Inode 7 has illegal block\(s\)\.  Clear\? no|Inode 7, i_blocks is \d+, should be \d+\.  Fix\? no|Resize inode not valid\.  Recreate\? no|` +
	`(Block|Inode) bitmap differences: ( [-+](\d+|\(\d+--\d+\)))+|(Block bitmap differences: )?Group \d+ (block|inode) bitmap does not match checksum\.|` +
	`Free (blocks|inodes) count wrong( for group #\d+)? \(\d+, counted=\d+\)\.|` +
	`Last group block bitmap uninitialized\.  Fix\? no|Padding at end of (block|inode) bitmap is not set\. Fix\? no|` +
	`Fix\? no|Clear inode\? no|Suppress messages\? no|IGNORED\.)?$`)

var lastPassPattern = regexp.MustCompile(`^Pass 5: `)

// maxLineBytes bounds how much of a line is kept: all differences of a bitmap are on one line.
const maxLineBytes = 1 << 20

// fsckReport parses what e2fsck -n prints about a filesystem whose growth was killed.
type fsckReport struct {
	line                   []byte
	otherErrors, completed bool // another error was printed; e2fsck ran to its end
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

// hasOnlyGrowthRemains reports whether a killed growth explains everything that is wrong with a
// filesystem. e2fsck cannot tell, and with -y it would clear a damaged file, too.
func (m *Mounter) hasOnlyGrowthRemains(ctx context.Context, device string) (bool, error) {
	var report fsckReport
	err := m.runFsckTo(ctx, device, "-n", &report)
	if err != nil && !isUncorrected(err) {
		return false, err
	}
	return report.onlyGrowthRemains(), nil
}
