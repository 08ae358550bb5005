package mount

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// superblockIn reads the first superblock, or replaces it.
func superblockIn(t *testing.T, d executor.Device, replacement []byte) []byte {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	if replacement != nil {
		_, err = f.WriteAt(replacement, extSuperblock)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	b := make([]byte, extLength)
	_, err = f.ReadAt(b, extSuperblock)
	require.NoError(t, err)
	return b
}

// tornVariants returns all superblocks of which resize2fs wrote some words and not yet the others.
func tornVariants(before, after []byte) (all [][]byte) {
	for at := 0; at < extLength; at += 2 {
		if bytes.Equal(before[at:at+2], after[at:at+2]) {
			continue
		}
		mixed := append(bytes.Clone(after[:at]), before[at:]...)
		if !bytes.Equal(mixed, before) {
			all = append(all, mixed)
		}
	}
	return all
}

// resize2fs is killed between two words of the superblock, which it writes last: with all of
// them there but the sum, the filesystem has its new size and cannot be mounted.
func TestAGrowthKilledInTheSuperblockIsRepeated(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	content := fillFiles(t, h.mountAt(d, "ext4", "before"))
	h.unmountAll()
	enlarge(t, &d, grownSize)
	require.NoError(t, h.runFsck(t.Context(), d.Path, "-p"))
	before := withErrorMark(superblockIn(t, d, nil)) // it sets the mark long before
	require.NoError(t, exec.Command("resize2fs", d.Path).Run())
	mixed := tornVariants(before, superblockIn(t, d, nil))
	require.Greater(t, len(mixed), 4)
	for _, super := range mixed {
		superblockIn(t, d, super)
		require.Less(t, h.filesystemSize(d, "ext4"), int64(grownSize))
		for range 2 {
			require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
			require.EqualValues(t, grownSize, h.filesystemSize(d, "ext4"))
		}
		requireClean(t, d, "ext4")
	}
	h.requireContent(d, content)
}

// resize2fs sets the state "with errors" first of all, when no copy is written yet: the copy
// does not say where the filesystem was mounted.
func TestAGrowthKilledAtItsStartIsRepeated(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	fillFiles(t, h.mountAt(d, "ext4", "before"))
	h.unmountAll()
	super := superblockIn(t, d, nil)
	copy(super[0x88:], "/staging") // the kernel notes it when a file is opened
	binary.LittleEndian.PutUint32(super[extChecksumAt:], checksum(super))
	superblockIn(t, d, super)
	super[extStateAt-extSuperblock] |= extHasErrors
	superblockIn(t, d, super)
	enlarge(t, &d, grownSize)
	for range 2 {
		require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
	}
	require.EqualValues(t, grownSize, h.filesystemSize(d, "ext4"))
	requireClean(t, d, "ext4")
}

// A filesystem of one group has no copy. What resize2fs writes first is so little that the
// sum tells what was there before.
func TestAOneGroupGrowthKilledAtItsStartIsRepeated(t *testing.T) {
	h := newHost(t)
	d := h.device(testSize)
	require.NoError(t, exec.Command("mkfs.ext4", "-q", "-b", "4096", d.Path).Run())
	content := fillFiles(t, h.mountAt(d, "ext4", "before"))
	h.unmountAll()
	enlarge(t, &d, 5*testSize)
	for name, tc := range map[string]struct {
		later  uint32
		marked byte
		rotten int
		want   bool
	}{
		"the mark":                  {marked: extHasErrors, want: true},
		"the time":                  {later: 60, want: true},
		"the time and the mark":     {later: 60, marked: extHasErrors, want: true},
		"the time, long after":      {later: 2 * maxGrowStartSeconds, marked: extHasErrors},
		"the mark, and a wrong bit": {marked: extHasErrors, rotten: extMountsAt},
		"a wrong bit":               {rotten: extMountsAt},
	} {
		d := h.reloadAfterCrash(d)
		require.NoError(t, h.runFsck(t.Context(), d.Path, "-p"))
		super := superblockIn(t, d, nil)
		written := binary.LittleEndian.Uint32(super[extWriteTimeAt:])
		binary.LittleEndian.PutUint32(super[extWriteTimeAt:], written+tc.later)
		super[extStateAt-extSuperblock] |= tc.marked
		if tc.rotten != 0 {
			super[tc.rotten] ^= 1
		}
		superblockIn(t, d, super)
		for range 2 {
			err := h.ExpandFilesystem(t.Context(), d, "ext4", "")
			require.Equal(t, tc.want, err == nil, "%s: %v", name, err)
		}
		if !tc.want {
			require.Equal(t, super, superblockIn(t, d, nil), name)
			continue
		}
		require.Equal(t, d.Size, h.filesystemSize(d, "ext4"), name)
		requireClean(t, d, "ext4")
		h.requireContent(d, content)
	}
}

// e2fsck sets the state "with errors", too, where it leaves what it found to an operator: the
// next try is not to take that for a growth that was killed, and clear the file away.
func TestDamageIsLeftToAnOperatorOnEachRetry(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	fillFiles(t, h.mountAt(d, "ext4", "before"))
	h.unmountAll()
	damage(t, d)
	enlarge(t, &d, grownSize)
	requireLeftToOperator(t, h, d)
	require.Zero(t, superblockIn(t, d, nil)[extErrorCountAt])
}

// A file is damaged, too, where a growth was killed: the one is no reason to clear the other
// away, however often it is tried, and whatever size the superblock claims.
func TestDamageIsLeftToAnOperatorWhereAGrowthWasKilled(t *testing.T) {
	for name, size := range map[string]int64{"in the middle": grownSize, "with nothing to grow": fsm.MinXFSSize} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			d := h.formatNew("ext4")
			fillFiles(t, h.mountAt(d, "ext4", "before"))
			h.unmountAll()
			enlarge(t, &d, size)
			require.NoError(t, h.runFsck(t.Context(), d.Path, "-p"))
			super := superblockIn(t, d, nil)
			require.NoError(t, exec.Command("resize2fs", d.Path).Run())
			damage(t, d)
			superblockIn(t, d, withErrorMark(super))
			requireLeftToOperator(t, h, d)
		})
	}
}

// One rotten field of the superblock is mended, as a torn one is, but that is no reason to
// clear a damaged file away: with its copy in its place e2fsck takes it, and decides nothing.
func TestDamageIsLeftToAnOperatorWhereTheSuperblockIsTorn(t *testing.T) {
	for name, size := range map[string]int64{"to be grown": grownSize, "with nothing to grow": fsm.MinXFSSize} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			d := h.formatNew("ext4")
			fillFiles(t, h.mountAt(d, "ext4", "before"))
			h.unmountAll()
			damage(t, d)
			super := superblockIn(t, d, nil)
			super[extMountsAt] ^= 1
			superblockIn(t, d, super)
			enlarge(t, &d, size)
			requireLeftToOperator(t, h, d)
		})
	}
}

func TestACorruptFieldIsRepairedFromTheBackup(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	content := fillFiles(t, h.mountAt(d, "ext4", "before"))
	h.unmountAll()
	super := superblockIn(t, d, nil)
	super[extMountsAt] ^= 1
	superblockIn(t, d, super)
	for range 2 {
		require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
	}
	require.EqualValues(t, fsm.MinXFSSize, h.filesystemSize(d, "ext4"))
	requireClean(t, d, "ext4")
	h.requireContent(d, content)
}

func TestAMountedSuperblockIsNotRepaired(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: h.mkdir("ro"), FSType: "ext4", ReadOnly: true}))
	super := superblockIn(t, d, nil)
	super[extMountsAt] ^= 1
	superblockIn(t, d, super)
	require.ErrorIs(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""), unix.EBUSY)
	require.Equal(t, super, superblockIn(t, d, nil))
	require.ErrorIs(t, countError(d.Path), unix.EBUSY)
	require.Equal(t, super, superblockIn(t, d, nil))
}

const extMountsAt = 0x34

// damage has a file's extents damaged.
func damage(t *testing.T, d executor.Device) {
	t.Helper()
	require.NoError(t, exec.Command("debugfs", "-w", "-R", "sif /data block[0] 0", d.Path).Run())
}

// requireLeftToOperator tries to grow a filesystem whose file is damaged, until an operator repairs it.
func requireLeftToOperator(t *testing.T, h *testHost, d executor.Device) {
	t.Helper()
	for range 3 {
		err := h.ExpandFilesystem(t.Context(), d, "ext4", "")
		requireRejected(t, fsm.Precondition, err)
		require.ErrorContains(t, err, "`e2fsck -f "+d.Path+"`")
		require.Less(t, h.filesystemSize(d, "ext4"), d.Size)
		out, err := exec.Command("debugfs", "-R", "stat /data", d.Path).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "Type: regular")
	}
	_ = exec.Command("e2fsck", "-f", "-y", d.Path).Run()
	require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
	require.Equal(t, d.Size, h.filesystemSize(d, "ext4"))
	requireClean(t, d, "ext4")
}

// A superblock that is wrong otherwise is left to an operator, as it is.
func TestADamagedSuperblockIsNotTakenForATornOne(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	intact := superblockIn(t, d, nil)
	for name, at := range map[string]int{"the sum": 0, "the block size": extLogBlockAt + 3, "the blocks of a group": extPerGroupAt, "the name": 0x78, "how many blocks": 0x04, "how many inodes": 0x01} {
		super := bytes.Clone(intact)
		super[extChecksumAt] ^= 1
		if at != 0 {
			super[at] ^= 1
		}
		head := make([]byte, superblockLen)
		copy(head[extSuperblock:], super)
		require.Equal(t, at == 0, isTornByGrowth(d.Path, head), name)
	}
	super := bytes.Clone(intact)
	super[0x78] ^= 1
	superblockIn(t, d, super)
	enlarge(t, &d, grownSize)
	require.Error(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
	require.Equal(t, super, superblockIn(t, d, nil))
}
