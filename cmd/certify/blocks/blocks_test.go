package blocks

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

const run certify.Run = "0123456789abcdef"

const places = 8

// file has the blocks up to a number.
func file(t *testing.T, upTo uint64) string {
	t.Helper()
	w := Writer{Run: run, Path: filepath.Join(t.TempDir(), "blocks"), Places: places}
	var err error
	w.file, err = create(w.Path)
	require.NoError(t, err)
	for range upTo {
		require.NoError(t, w.one())
	}
	require.NoError(t, w.file.Close())
	return w.Path
}

func read(t *testing.T, path string, acknowledged uint64) certify.ReadBack {
	t.Helper()
	found, err := (&Reader{Run: run, Path: path, Places: places, Acknowledged: acknowledged}).Read()
	require.NoError(t, err)
	return found
}

func TestWhatIsAcknowledgedIsThere(t *testing.T) {
	for upTo := uint64(1); upTo <= 3*places; upTo++ {
		path := file(t, upTo)
		for acknowledged := max(1, upTo-1); acknowledged <= upTo; acknowledged++ { // the last may not have been acknowledged
			found := read(t, path, acknowledged)
			require.Zero(t, found.Missing, found.Says)
			require.Equal(t, min(acknowledged, places), found.Read)
			require.GreaterOrEqual(t, found.Highest, acknowledged)
		}
	}
}

func TestWhatIsLostIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		upTo, acknowledged uint64
		change             func(b []byte)
		missing            uint64
		says               string
	}{
		"a block was never written":       {5, 6, nil, 1, "block 6: read it"},
		"an older block is there":         {15, 16, nil, 1, "block 16: the older block 8 is in its place"},
		"a bit is another":                {20, 20, func(b []byte) { b[3*certify.BlockSize+100] ^= 1 }, 1, "block 20: its checksum is wrong"},
		"a block is empty":                {8, 8, func(b []byte) { clear(b[:certify.BlockSize]) }, 1, "block 1: nothing was written there"},
		"two blocks changed places":       {8, 8, func(b []byte) { copy(b, encode(run, 2)); copy(b[certify.BlockSize:], encode(run, 1)) }, 2, "block 1: block 2 is in its place"},
		"another run wrote it":            {8, 8, func(b []byte) { copy(b, encode("fedcba9876543210", 1)) }, 1, "another run wrote it"},
		"all is lost, and little is said": {24, 24, func(b []byte) { clear(b) }, 8, "block 17: nothing was written there"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, tc.upTo)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			if tc.change != nil {
				tc.change(content)
			}
			require.NoError(t, os.WriteFile(path, content, 0o600))
			found := read(t, path, tc.acknowledged)
			require.Equal(t, tc.missing, found.Missing)
			require.Contains(t, found.Says[0], tc.says)
			require.LessOrEqual(t, len(found.Says), most)
		})
	}
	_, err := (&Reader{Run: run, Path: filepath.Join(t.TempDir(), "none"), Places: places}).Read()
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestAWriterAcknowledgesUntilItIsStopped: its last word is of all that it wrote, and a second one does not overwrite it.
func TestAWriterAcknowledgesUntilItIsStopped(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	w := Writer{Run: run, Path: filepath.Join(t.TempDir(), "blocks"), Places: places, Pause: time.Millisecond, Every: 20 * time.Millisecond}
	var out bytes.Buffer
	require.NoError(t, w.Write(ctx, &out))
	var said []certify.Acknowledged
	for lines := json.NewDecoder(&out); lines.More(); {
		var one certify.Acknowledged
		require.NoError(t, lines.Decode(&one))
		said = append(said, one)
	}
	require.EqualValues(t, 1, said[0].Number, "it says at once that it writes")
	last := said[len(said)-1]
	require.Equal(t, w.said, last)
	require.Positive(t, last.Longest)
	require.Zero(t, read(t, w.Path, last.Number).Missing)
	require.ErrorIs(t, w.Write(t.Context(), &out), os.ErrExist)
}
