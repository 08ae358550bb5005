package mount

import (
	"bytes"
	"context"
	"regexp"
)

// ofAGrowth is all that e2fsck says (its e2fsck/problem.c) of an ext4 whose growth was
// killed: the resize inode, 7, reaches beyond the blocks that the superblock counts, and
// bitmaps and counts are those of the other size. All of it is made again from the inodes;
// none of it is a file. A question on a line of its own follows the line that it is about.
var ofAGrowth = regexp.MustCompile(`^(` +
	`e2fsck [0-9].*|Pass [1-5]: .*|.*: \*{10} WARNING: Filesystem still has errors \*{10}|.*: \d+/\d+ files \(.*\), \d+/\d+ blocks|` +
	`Illegal block #\d+ \(\d+\) in inode 7\.  IGNORED\.|Too many illegal blocks in inode 7\.|` +
	`Inode 7 has illegal block\(s\)\.  Clear\? no|Inode 7, i_blocks is \d+, should be \d+\.  Fix\? no|Resize inode not valid\.  Recreate\? no|` +
	`(Block|Inode) bitmap differences: ( [-+](\d+|\(\d+--\d+\)))+|(Block bitmap differences: )?Group \d+ (block|inode) bitmap does not match checksum\.|` +
	`Free (blocks|inodes) count wrong( for group #\d+)? \(\d+, counted=\d+\)\.|` +
	`Last group block bitmap uninitialized\.  Fix\? no|Padding at end of (block|inode) bitmap is not set\. Fix\? no|` +
	`Fix\? no|Clear inode\? no|Suppress messages\? no|IGNORED\.)?$`)

var lastPass = regexp.MustCompile(`^Pass 5: `)

// longestLine bounds what is kept of a line: differences of a bitmap are on one.
const longestLine = 1 << 20

// remains reads what e2fsck -n says of a filesystem whose growth was killed.
type remains struct {
	line          []byte
	other, passed bool // it says something else; it went through to the end
}

func (r *remains) Write(p []byte) (int, error) {
	n := len(p)
	for !r.other {
		head, rest, whole := bytes.Cut(p, []byte("\n"))
		r.line = append(r.line, head...)
		if r.other = len(r.line) > longestLine; r.other || !whole {
			break
		}
		r.end()
		p = rest
	}
	return n, nil
}

func (r *remains) end() {
	line := bytes.TrimRight(r.line, " ")
	r.other = !ofAGrowth.Match(line)
	r.passed = r.passed || lastPass.Match(line)
	r.line = r.line[:0]
}

func (r *remains) only() bool { return r.passed && !r.other && len(r.line) == 0 }

// onlyRemains tells whether all that is wrong with a filesystem is what a growth leaves that
// is killed. e2fsck does not say so itself, and with -y it would clear a damaged file, too.
func (m *Mounter) onlyRemains(ctx context.Context, device string) (bool, error) {
	var said remains
	err := m.checkTo(ctx, device, "-n", &said)
	if err != nil && !unhealed(err) {
		return false, err
	}
	return said.only(), nil
}
