package luks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

func TestTheMappingsAreListedFromTheKernel(t *testing.T) {
	const name = "hfc-00000000-0000-4000-8000-000000000001"
	tool := New(nil, nil)
	tool.sysfs = t.TempDir()
	have, err := tool.Mappings(t.Context())
	require.NoError(t, err)
	require.Empty(t, have)
	write := func(file, text string) {
		path := filepath.Join(tool.sysfs, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	}
	write("dm-1/dm/name", "vg-lv")
	write("dm-2/dm/name", name)
	write("dm-2/dm/uuid", "CRYPT-LUKS2-11111111222243338444555555555555-"+name)
	write("dm-2/slaves/loop7/dev", "7:7")
	write("dm-3/dm/name", "hfc-x")
	write("dm-3/dm/uuid", "CRYPT-PLAIN-hfc-x")
	write("dm-3/slaves/loop1/dev", "7:1")
	write("dm-3/slaves/loop2/dev", "7:2")
	for range 2 {
		have, err = tool.Mappings(t.Context())
		require.NoError(t, err)
		require.Equal(t, []executor.LUKSMapping{
			{Volume: volume, Path: "/dev/mapper/" + name, UUID: uuid, Below: executor.Device{Path: "/dev/loop7", Number: unix.Mkdev(7, 7)}},
			{Path: "/dev/mapper/hfc-x"},
		}, have)
	}
}

// TestTheUUIDOfAHeaderIsRead checks it on the device and in a copy, with one of the header's own copies lost, and that a
// header that is gone is told from a place that cannot be read.
func TestTheUUIDOfAHeaderIsRead(t *testing.T) {
	tool, r := newTool(t)
	image := newImage(t)
	requireUUID := func(path, want string) {
		t.Helper()
		got, err := tool.HeaderUUID(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	requireUUID(image, "")
	require.NoError(t, tool.Format(t.Context(), image, uuid, key("one")))
	backup := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, tool.BackUpHeader(t.Context(), image, backup))
	commands := len(r.commands)
	requireUUID(image, uuid)
	requireUUID(backup, uuid)
	require.Len(t, r.commands, commands, "a whole one is read without a command")
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 4096), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	requireUUID(image, uuid)
	require.NoError(t, tool.WipeHeader(t.Context(), image))
	requireUUID(image, "")
	_, err = tool.HeaderUUID(t.Context(), "/nonexistent")
	require.Error(t, err)
}
