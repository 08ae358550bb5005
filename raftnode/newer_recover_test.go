package raftnode

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/foldertest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// S24, S72: `holdfast recover` of a log with an entry of a newer build refuses before it has written anything, also after a
// stop that was not in order, when every file would be written anew. The entry can be looked at.
func TestS24_S72_RecoverLeavesALogOfANewerBuildByteForByte(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		level   uint32
		unknown []byte // a field that this build does not know
		want    string
	}{
		"a level":              {level: fsm.MaxFeatureLevel + 1, want: "it needs feature level 4, this build understands 3"},
		"a field of its level": {level: fsm.MaxFeatureLevel, unknown: protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1), want: "that this build does not know"},
	} {
		for _, kind := range []string{store.WAL, store.BoltDB} {
			for _, inOrder := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s of %s, stopped in order: %t", name, kind, inOrder), func(t *testing.T) {
					t.Parallel()
					c := newTestCluster(t, nil)
					n := c.add("c1", func(cfg *Config) { cfg.LogStore = kind })
					c.waitReady(1)
					n.mustPropose(t, "a")
					require.NoError(t, n.stop())
					asNewerBuild(t, n, func(s *store.Store) {
						last, err := s.Logs.LastIndex()
						require.NoError(t, err)
						var e raft.Log
						require.NoError(t, s.Logs.GetLog(last, &e))
						data, err := proto.Marshal(commandAtLevel(tc.level))
						require.NoError(t, err)
						require.NoError(t, s.Logs.StoreLog(&raft.Log{Index: last + 1, Term: e.Term, Type: raft.LogCommand, Data: append(data, tc.unknown...)}))
					})
					require.NoError(t, os.MkdirAll(filepath.Join(n.cfg.Dir, "snapshots", "1-1-1.tmp"), 0o700), "a crash left it")
					if !inOrder {
						require.NoError(t, os.Remove(filepath.Join(n.cfg.Dir, "stopped")))
					}
					before := foldertest.Files(t, n.cfg.Dir)
					for range 2 {
						err := n.survive()
						require.ErrorIs(t, err, store.ErrRefused)
						require.ErrorIs(t, err, store.ErrNewer)
						require.ErrorContains(t, err, tc.want)
						require.ErrorContains(t, err, "remedy: start the build that wrote it, or a newer one")
						require.Empty(t, foldertest.Changes(before, foldertest.Files(t, n.cfg.Dir)))
					}
					requireEntryCanBeLookedAt(t, n)
				})
			}
		}
	}
}
