package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPathsOfProcAreUnescaped(t *testing.T) {
	for text, want := range map[string]string{
		"/plain": "/plain", `/a\040b\134c\012`: "/a b\\c\n", `/comma\054`: "/comma,", `/"quoted"\303\244`: `/"quoted"ä`, `/not\9\08`: `/not\9\08`, `/end\0`: `/end\0`,
	} {
		require.Equal(t, want, unescape(text))
	}
	path, found := upperPath(`rw,lowerdir=/l,upperdir=/a\040b\054c,workdir=/w`)
	require.True(t, found)
	require.Equal(t, "/a b,c", path)
}

// The path of an overlay's folder may have every character.
func TestS9_AnOverlayWithAnOddPathIsFound(t *testing.T) {
	h := newHost(t)
	device, dir := h.stageNew("ext4")
	for _, name := range []string{"lower", "up per", "work"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	at := h.mkdir("merged")
	require.NoError(t, unix.Mount("overlay", at, "overlay", 0, "lowerdir="+dir+"/lower,upperdir="+dir+"/up per,workdir="+dir+"/work"))
	victim := sleeper(t, open(t, filepath.Join(at, "file"), os.O_CREATE|os.O_WRONLY))
	require.True(t, writesSeenAlone(t, device, victim))
}

// The process whose root an overlay's folder is looked up in may end before that.
func TestS9_ARootIsThereWhenItsProcessEnded(t *testing.T) {
	h := newHost(t)
	root := h.mkdir("root")
	require.NoError(t, os.WriteFile(filepath.Join(root, "name"), nil, 0o600))
	var all []processMounts
	inEmptyRoot(t, root, func(thread int) {
		var err error
		all, err = mountsOfAll([]int{thread})
		require.NoError(t, err)
	})
	defer closeAll(all)
	require.Len(t, all, 1)
	fd, err := all[0].lookUp("/name")
	require.NoError(t, err)
	closeFD(fd)
}

// A btrfs has a number of its own, and not its device's. What is mounted is named in the table by the path of the device.
func TestS9_ABtrfsIsOnItsDevice(t *testing.T) {
	h := newHost(t)
	device := h.device(testSize)
	table, err := parseTable([]byte("30 27 0:99 / /data rw - btrfs " + device.Path + " rw\n31 27 0:98 / /other rw - tmpfs " + device.Path + " rw\n"))
	require.NoError(t, err)
	mounts, err := mountsOfAll([]int{os.Getpid()})
	require.NoError(t, err)
	defer closeAll(mounts)
	mounts[0].table = table
	devices := map[uint64]bool{device.Number: true}
	addAbove(devices, mounts)
	require.Equal(t, map[uint64]bool{device.Number: true, table[0].number(): true}, devices)
}
