package lvm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
)

// fileMetadataRunner runs thin_dump on a file that thin_restore made: a pool's metadata without a
// kernel that uses it, and so without a snapshot of it.
type fileMetadataRunner struct {
	runner *run.Runner
	file   string
}

func (r fileMetadataRunner) Run(ctx context.Context, c run.Command) ([]byte, error) {
	c.Args = append(slices.DeleteFunc(slices.Clone(c.Args[:len(c.Args)-1]), func(a string) bool { return a == "-m" }), r.file)
	return r.runner.Run(ctx, c)
}

// volumeMap is where a volume's blocks lie in the pool; -1: nowhere.
type volumeMap []int64

func (m volumeMap) xml(id int) string {
	var text strings.Builder
	mapped := 0
	for block, data := range m {
		if data >= 0 {
			fmt.Fprintf(&text, "    <single_mapping origin_block=\"%d\" data_block=\"%d\" time=\"0\"/>\n", block, data)
			mapped++
		}
	}
	return fmt.Sprintf("  <device dev_id=\"%d\" mapped_blocks=\"%d\" transaction=\"1\" creation_time=\"0\" snap_time=\"1\">\n%s  </device>\n", id, mapped, text.String())
}

// changedMaps are a base and a target with changes that touch each other in the volume, in
// the pool, or in both.
func changedMaps(r *rand.Rand, length int) (base, target volumeMap, next int64) {
	base = make(volumeMap, length)
	fresh := func() int64 {
		if r.IntN(3) == 0 {
			next += r.Int64N(4) // a gap in the pool
		}
		next++
		return next - 1
	}
	for i := range base {
		if base[i] = fresh(); r.IntN(6) == 0 {
			base[i] = -1
		}
	}
	target = slices.Clone(base)
	for range r.IntN(length) {
		if i := r.IntN(length); r.IntN(5) == 0 {
			target[i] = -1
		} else {
			target[i] = fresh()
		}
	}
	return base, target, next
}

// The real thin_dump, of metadata that the real thin_restore made: every
// block that differs is reported, and no other.
func TestDeltaMissesNoChangedBlock(t *testing.T) {
	restore, err := exec.LookPath("thin_restore")
	if err != nil {
		t.Skip("thin_restore is not installed")
	}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 33))
		base, target, data := changedMaps(r, 50+r.IntN(2000))
		text := fmt.Sprintf("<superblock uuid=\"\" time=\"2\" transaction=\"5\" version=\"2\" data_block_size=\"128\" nr_data_blocks=\"%d\">\n%s%s</superblock>\n", data+1, base.xml(7), target.xml(9))
		dir := t.TempDir()
		xml, file := filepath.Join(dir, "xml"), filepath.Join(dir, "metadata")
		require.NoError(t, os.WriteFile(xml, []byte(text), 0o600))
		require.NoError(t, os.WriteFile(file, make([]byte, 4<<20), 0o600))
		needsDirectIO(t, file)
		out, err := exec.Command(restore, "-i", xml, "-o", file).CombinedOutput()
		require.NoError(t, err, string(out))
		tools := &tools{runner: fileMetadataRunner{run.New(), file}}
		for _, direction := range []struct {
			ids      []uint64
			old, now volumeMap
		}{{[]uint64{7, 9}, base, target}, {[]uint64{9, 7}, target, base}} {
			got := make([]bool, len(base))
			require.NoError(t, tools.compareDumps(t.Context(), file, &thinDevices{ids: direction.ids, chunk: 1, size: int64(len(base))}, 0, func(e executor.Extent) error {
				for i := e.Offset; i < e.Offset+e.Length; i++ {
					got[i] = true
				}
				return nil
			}))
			for i := range got {
				require.Equal(t, direction.old[i] != direction.now[i], got[i], "seed %d, block %d", seed, i)
			}
		}
	}
}

// needsDirectIO skips where the folder for temporary files has none: the tools open
// metadata with it.
func needsDirectIO(t *testing.T, file string) {
	t.Helper()
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("the filesystem of the temporary files has no direct I/O")
	}
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
}
