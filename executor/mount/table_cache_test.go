package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// The table is read again when, and only when, it is another one: each change is seen at
// the very next look.
func TestATableThatChangedIsReadAgain(t *testing.T) {
	h := newHost(t)
	d, dir := h.stageNew("ext4")
	for i := range 5 {
		bound := filepath.Join(h.dir, fmt.Sprint("bound-", i))
		require.NoError(t, os.Mkdir(bound, 0o700))
		require.Len(t, h.mounts(d), 1)
		require.NoError(t, unix.Mount(dir, bound, "", unix.MS_BIND, ""))
		require.Len(t, h.mounts(d), 2, "a mount that somebody else made")
		require.NoError(t, unix.Mount("", bound, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		require.True(t, h.mounts(d)[1].ReadOnly, "and made read-only")
		require.NoError(t, unix.Unmount(bound, 0))
		require.Len(t, h.mounts(d), 1)
	}
}

func TestATableThatIsTheSameIsNotReadAgain(t *testing.T) {
	h := newHost(t)
	first, err := h.tableCache.get()
	require.NoError(t, err)
	for range 100 {
		again, err := h.tableCache.get()
		require.NoError(t, err)
		if again == first {
			return
		}
		first = again // something else on this machine was mounted meanwhile
	}
	t.Fatal("the table was read at each of 100 looks")
}

// The index finds the same entries as a scan of every line.
func TestTheIndexMatchesTheTable(t *testing.T) {
	lines := manyMounts(50)
	for n := range 60 {
		d := deviceNumbered(n)
		require.Equal(t, scan(lines, d), newTableIndex(lines).mountsOf(d))
	}
}

func BenchmarkMountsOfEachDevice(b *testing.B) {
	const devices = 2000
	lines := manyMounts(devices)
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			for n := range devices {
				scan(lines, deviceNumbered(n))
			}
		}
	})
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			index := newTableIndex(lines)
			for n := range devices {
				index.mountsOf(deviceNumbered(n))
			}
		}
	})
}

// scan looks at every line.
func scan(lines mountTable, d executor.Device) (found []executor.Mount) {
	for _, l := range lines {
		if current, ours := l.mountOf(d); ours {
			found = append(found, current)
		}
	}
	return found
}

func deviceNumbered(n int) executor.Device {
	return executor.Device{Path: fmt.Sprint("/dev/loop", n), Number: unix.Mkdev(7, uint32(n))}
}

// manyMounts is a table of so many devices: each staged, bound twice, and given out as a
// node once.
func manyMounts(devices int) (lines mountTable) {
	for n := range devices {
		for i := range 3 {
			lines = append(lines, mountEntry{&mountinfo.Info{Major: 7, Minor: n, Root: "/", Mountpoint: fmt.Sprintf("/staged/%d/%d", n, i), FSType: "ext4", Options: "rw"}})
		}
		lines = append(lines, mountEntry{&mountinfo.Info{Major: 0, Minor: 5, Root: fmt.Sprint("/loop", n), Mountpoint: fmt.Sprint("/node/", n), FSType: "devtmpfs", Options: "rw"}})
	}
	return lines
}
