package fsm

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// TestAForkKeepsItsReplicaSyncs: volumes share their ReplicaSyncs with those of forks, so
// what one of the states applies must not be seen in the other.
func TestAForkKeepsItsReplicaSyncs(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(int64(300 + seed))), left: 300})
			p.w = newReplicatedAt(t, Level1+uint32(seed%2), protocolC)
			p.at, p.created = p.w.index, 1
			for p.more() {
				e := p.next()
				if p.roll(5) > 0 {
					actor, body := p.realisticStep()
					e.cmd = envelope(actor, fmt.Sprintf("fork %d", e.index), e.index-1, body)
				}
				if LeastLevel(e.cmd) > p.w.s.Cluster().FeatureLevel {
					continue
				}
				before, fork := dumpOf(t, p.w.s), p.w.s.Fork()
				fork.Apply(e.index, e.cmd)
				require.Equal(t, before, dumpOf(t, p.w.s), "the fork applied %v", e.cmd)
				after := dumpOf(t, fork)
				p.w.s.Apply(e.index, e.cmd)
				require.Equal(t, after, dumpOf(t, fork), "the state applied %v", e.cmd)
			}
		})
	}
}

// TestADumpWithLeavingReplicasStillLoads: it was written before ReplicaSync was a part of
// Replica, of a state in which a replica is being removed whose sync state is kept.
func TestADumpWithLeavingReplicasStillLoads(t *testing.T) {
	file, err := os.ReadFile("testdata/leaving.snapshot")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/leaving.hash")
	require.NoError(t, err)
	s, header, err := ReadDump(bytes.NewReader(file))
	require.NoError(t, err)
	require.NoError(t, s.Check())
	hash := s.Hash()
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(hash[:]))
	leaving := 0
	for v := range s.Volumes("") {
		if v.Replication != nil {
			leaving += len(v.recordedLeaving())
		}
	}
	require.NotZero(t, leaving)
	var again bytes.Buffer
	require.NoError(t, s.WriteDump(&again, header.Term))
	require.Equal(t, file, again.Bytes())
}

// TestAReplicaSyncIsOfOneReplica: a record has at most one for each replica, and none for
// others.
func TestAReplicaSyncIsOfOneReplica(t *testing.T) {
	leg := func(host string) *fsmpb.LegRecord { return &fsmpb.LegRecord{HostId: host} }
	for name, tc := range map[string]struct {
		legs, left []*fsmpb.LegRecord
		want       error
	}{
		"each its own":       {legs: []*fsmpb.LegRecord{leg("h1")}, left: []*fsmpb.LegRecord{leg("h2")}},
		"without a replica":  {legs: []*fsmpb.LegRecord{leg("h3")}, want: errForm},
		"two of one replica": {legs: []*fsmpb.LegRecord{leg("h1"), leg("h1")}, want: errForm},
		"active and leaving": {legs: []*fsmpb.LegRecord{leg("h1")}, left: []*fsmpb.LegRecord{leg("h1")}, want: errForm},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Volume{Replicas: []Replica{{Host: "h1"}, {Host: "h2"}}, Replication: &Replication{}}
			var err error
			v.readSyncs(&fsmpb.ReplicationRecord{Legs: tc.legs, Left: tc.left}, &err)
			require.Equal(t, tc.want, err)
		})
	}
}

func TestAMinorThatDRBDDoesNotHaveIsRefusedInADump(t *testing.T) {
	for minor, want := range map[uint32]error{firstMinor: nil, lastMinor: nil, firstMinor - 1: errForm, lastMinor + 1: errForm} {
		var err error
		replicationFromRecord(&fsmpb.ReplicationRecord{Minor: minor}, &err)
		require.Equal(t, want, err, minor)
	}
}
