package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/foldertest"
)

// S72: also after a stop that was not in order, when every file would be written anew.
func TestS72_AFolderOfANewerBuildIsLeftByteForByte(t *testing.T) {
	newer := func(r io.Reader) error {
		if text, err := io.ReadAll(r); err != nil || len(text) == 0 {
			return errors.New("it is not the snapshot's content")
		}
		return fmt.Errorf("read the header: %w", ErrNewer)
	}
	for name, plant := range map[string]func(*testing.T, *Store, *Options){
		"the folder's format": func(t *testing.T, s *Store, _ *Options) {
			id := s.id
			id.Format = formatVersion + 1
			require.NoError(t, s.dir.writeChecksummed(s.dir.identityPath(), "", id))
		},
		"a Raft snapshot": func(_ *testing.T, _ *Store, o *Options) { o.CheckHeader = newer },
	} {
		for _, inOrder := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stopped in order: %t", name, inOrder), func(t *testing.T) {
				s := open(t, fastDir(t), WAL)
				appendEntries(t, s, 1, 30, 2)
				snapshotAt(t, s, 20, 2)
				require.NoError(t, s.Close())
				if !inOrder {
					require.NoError(t, os.Remove(s.dir.stoppedPath()))
				}
				o := options(s.dir.root, WAL)
				plant(t, s, &o)
				before := foldertest.Files(t, s.dir.root)
				for range 2 {
					_, err := Open(o)
					require.ErrorIs(t, err, ErrRefused)
					require.ErrorIs(t, err, ErrNewer)
					require.ErrorContains(t, err, "remedy: "+remedyNewerBuild)
					require.Empty(t, foldertest.Changes(before, foldertest.Files(t, s.dir.root)))
				}
			})
		}
	}
}
