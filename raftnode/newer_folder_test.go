package raftnode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/foldertest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// withHeader writes the dump again with another header.
func withHeader(t *testing.T, dump []byte, change func(*fsmpb.Header)) []byte {
	t.Helper()
	const magic = 8
	length, n := binary.Uvarint(dump[magic:])
	h := &fsmpb.Header{}
	rest := dump[magic+n:]
	require.NoError(t, proto.Unmarshal(rest[:length], h))
	change(h)
	header, err := proto.Marshal(h)
	require.NoError(t, err)
	out := binary.AppendUvarint(bytes.Clone(dump[:magic]), uint64(len(header)))
	return append(append(out, header...), rest[length:]...)
}

// asNewerBuild opens a stopped member's store as a build does that understands what is planted.
func asNewerBuild(t *testing.T, n *testMember, plant func(*store.Store)) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: n.cfg.Dir, Kind: n.cfg.LogStore, SegmentSize: n.cfg.SegmentSize})
	require.NoError(t, err)
	plant(s)
	require.NoError(t, s.Close())
}

// withoutPages leaves out the files that hold the log and the vote, and the mark that says that they were closed in order.
func withoutPages(dir string, all ...map[string]string) {
	for _, files := range all {
		for _, name := range []string{"raft.db", "wal/wal-meta.db", "stopped"} {
			delete(files, filepath.Join(dir, name))
		}
	}
}

// entriesOf are a stopped member's log, vote and term.
func entriesOf(t *testing.T, n *testMember) (all []string) {
	t.Helper()
	asNewerBuild(t, n, func(s *store.Store) {
		first, err := s.Logs.FirstIndex()
		require.NoError(t, err)
		last, err := s.Logs.LastIndex()
		require.NoError(t, err)
		for i := first; i <= last; i++ {
			var e raft.Log
			require.NoError(t, s.Logs.GetLog(i, &e))
			all = append(all, fmt.Sprint(e.Index, e.Term, e.Type, e.Data))
		}
		term, err := s.Stable.GetUint64([]byte("CurrentTerm"))
		require.NoError(t, err)
		voted, err := s.Stable.Get([]byte("LastVoteCand"))
		require.NoError(t, err)
		all = append(all, fmt.Sprint(term, voted))
	})
	return all
}

// inspect opens a stopped member's folder as `holdfast log inspect` does, where that is refused.
func (n *testMember) inspect() error {
	_, err := OpenOffline(n.cfg.Dir)
	return err
}

// survive opens it as `holdfast recover` does.
func (n *testMember) survive() error {
	_, err := OpenSurvivor(n.cfg.Dir)
	return err
}

// requireEntryCanBeLookedAt: `holdfast log inspect` shows the last entry, whatever it needs.
func requireEntryCanBeLookedAt(t *testing.T, n *testMember) {
	t.Helper()
	o, err := OpenOffline(n.cfg.Dir)
	require.NoError(t, err)
	_, last, _, err := o.Bounds()
	require.NoError(t, err)
	name, _, err := o.Entry(last)
	require.NoError(t, err)
	require.Equal(t, last, name.Index)
	require.NoError(t, o.Close())
}

// S72: a controller that finds what a newer build wrote refuses before it has written anything. The same folder goes on once
// what is newer is gone, as it would with the newer build.
func TestS72_AFolderOfANewerBuildIsLeftByteForByte(t *testing.T) {
	t.Parallel()
	plantDump := func(change func(*fsmpb.Header)) func(*testing.T, *testMember, []byte) func(*store.Store) {
		return func(t *testing.T, _ *testMember, dump []byte) func(*store.Store) {
			return func(s *store.Store) {
				last, err := s.Logs.LastIndex()
				require.NoError(t, err)
				var e raft.Log
				require.NoError(t, s.Logs.GetLog(last, &e))
				_, transport := raft.NewInmemTransport("x")
				sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, last, e.Term, raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(s.MemberID), Address: "x"}}}, 1, transport)
				require.NoError(t, err)
				_, err = sink.Write(withHeader(t, dump, change))
				require.NoError(t, err)
				require.NoError(t, sink.Close())
			}
		}
	}
	for name, tc := range map[string]struct {
		plant func(*testing.T, *testMember, []byte) func(*store.Store)
		want  string
		log   bool // it is seen when the log is open, which changes the stores' own pages and no entry
	}{
		"a level in a Raft snapshot":  {plantDump(func(h *fsmpb.Header) { h.FeatureLevel = fsm.MaxFeatureLevel + 1 }), "its feature level is 4, this build understands 3 at most", false},
		"a format of a Raft snapshot": {plantDump(func(h *fsmpb.Header) { h.Format++ }), "its format is 2, this build reads 1 only", false},
		"a level in the log": {func(t *testing.T, _ *testMember, _ []byte) func(*store.Store) {
			return func(s *store.Store) {
				last, err := s.Logs.LastIndex()
				require.NoError(t, err)
				var e raft.Log
				require.NoError(t, s.Logs.GetLog(last, &e))
				data, err := proto.Marshal(commandAtLevel(fsm.MaxFeatureLevel + 1))
				require.NoError(t, err)
				require.NoError(t, s.Logs.StoreLog(&raft.Log{Index: last + 1, Term: e.Term, Type: raft.LogCommand, Data: data}))
			}
		}, "it needs feature level 4, this build understands 3", true},
	} {
		for _, kind := range []string{store.WAL, store.BoltDB} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				t.Parallel()
				c := newTestCluster(t, nil)
				n := c.add("c1", func(cfg *Config) { cfg.LogStore = kind })
				c.waitReady(1)
				n.mustPropose(t, "a")
				var dump bytes.Buffer
				require.NoError(t, n.machine.fork().WriteDump(&dump, 1))
				require.NoError(t, n.stop())
				asNewerBuild(t, n, tc.plant(t, n, dump.Bytes()))
				require.NoError(t, os.MkdirAll(filepath.Join(n.cfg.Dir, "snapshots", "1-1-1.tmp"), 0o700), "a crash left it")
				entries := entriesOf(t, n)
				before := foldertest.Files(t, n.cfg.Dir)
				attempts := []func() error{func() error { return c.start(n) }}
				if !tc.log { // offline an entry can be looked at
					attempts = append(attempts, n.inspect, n.survive)
				}
				for i := range 2 * len(attempts) {
					err := attempts[i%len(attempts)]()
					require.ErrorIs(t, err, store.ErrRefused)
					require.ErrorContains(t, err, tc.want)
					require.ErrorContains(t, err, "remedy: start the build that wrote it, or a newer one")
					after := foldertest.Files(t, n.cfg.Dir)
					if tc.log {
						withoutPages(n.cfg.Dir, before, after)
					}
					require.Empty(t, foldertest.Changes(before, after))
				}
				require.Equal(t, entries, entriesOf(t, n))
				if tc.log {
					requireEntryCanBeLookedAt(t, n)
				}
			})
		}
	}
}
