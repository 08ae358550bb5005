package mount

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const fsckOutputOfGrowth = `e2fsck 1.47.0 (5-Feb-2023)
Resize inode not valid.  Recreate? no

Pass 1: Checking inodes, blocks, and sizes
Inode 7 has illegal block(s).  Clear? no

Illegal block #1036 (335874) in inode 7.  IGNORED.
Too many illegal blocks in inode 7.
Clear inode? no

Suppress messages? no

Inode 7, i_blocks is 1288, should be 520.  Fix? no

Pass 2: Checking directory structure
Pass 3: Checking directory connectivity
Pass 4: Checking reference counts
Pass 5: Checking group summary information
Block bitmap differences: Group 39 block bitmap does not match checksum.
IGNORED.
Block bitmap differences:  -(327681--335871) -336000
Fix? no

Free blocks count wrong for group #39 (16125, counted=7932).
Fix? no

Padding at end of block bitmap is not set. Fix? no


image: ********** WARNING: Filesystem still has errors **********

image: 192/81920 files (1.0% non-contiguous), 27473/327680 blocks
`

func TestAKilledGrowthIsDistinguishedFromDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		old, now string
		want     bool
	}{
		"a growth":                  {want: true},
		"another inode":             {old: "in inode 7.  IG", now: "in inode 77.  IG"},
		"another inode's count":     {old: "Inode 7, i_blocks", now: "Inode 12, i_blocks"},
		"a file's extents":          {old: "Inode 7 has illegal block(s).", now: "Inode 12 has an invalid extent node (blk 1, lblk 0)"},
		"a file that is gone":       {old: "Pass 3: ", now: "Entry 'data' in / (2) has deleted/unused inode 12.  Clear? no\nPass 3: "},
		"a block of two files":      {old: "Pass 2: ", now: "Multiply-claimed block(s) in inode 12: 8193\nPass 2: "},
		"a journal":                 {old: "Pass 1: ", now: "Warning: skipping journal recovery because doing a read-only filesystem check.\nPass 1: "},
		"a check that did not end":  {old: "Pass 5: Checking group summary information\n", now: ""},
		"a line that did not end":   {old: "327680 blocks\n", now: "327680 blocks\nInode 12"},
		"a line that has no end":    {old: " -336000", now: strings.Repeat(" -336000", maxLineBytes/8)},
		"a question of its own":     {old: "\nFree blocks", now: "\nFree extents"},
		"something after all of it": {old: " -336000", now: " -336000 Inode 12"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(fsckOutputOfGrowth, tc.old, tc.now, 1)
			require.Equal(t, tc.old == "", text == fsckOutputOfGrowth)
			for _, step := range []int{1, 7, len(text)} {
				var said fsckReport
				for at := 0; at < len(text); at += step {
					_, err := said.Write([]byte(text[at:min(at+step, len(text))]))
					require.NoError(t, err)
				}
				require.Equal(t, tc.want, said.onlyGrowthRemains())
			}
		})
	}
}
