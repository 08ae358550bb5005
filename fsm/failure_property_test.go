package fsm

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// stopTrial stops one host on copies of a played state, and asks the log what it said before that.
type stopTrial struct {
	t     *testing.T
	s     *State
	node  *Node
	tally map[string]int
}

// apply applies a command to a copy of the state.
func (x *stopTrial) apply(fork *State, actor string, body proto.Message) *fsmpb.Outcome {
	x.t.Helper()
	out, err := fork.Try(envelope(actor, fmt.Sprint("trial ", fork.cluster.Index), fork.cluster.Index, body))
	require.NoError(x.t, err)
	return out
}

// stopped is a copy of the state in which the host cannot be asked any more.
func (x *stopTrial) stopped() *State {
	fork := x.s.Fork()
	x.apply(fork, controller, &fsmpb.SetNodeReachable{NodeId: string(x.node.ID), HostId: string(x.node.Host)})
	return fork
}

// TestWhatIsSafeToStopIsSafe: of a volume that is not said to become unavailable, frozen or lost, the log lets a host go on,
// or another one take over, after the host stopped; and one that is not said to be lost has a copy after its host is lost.
func TestWhatIsSafeToStopIsSafe(t *testing.T) {
	tally := map[string]int{}
	for seed := range int64(6) {
		p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(1000 + seed)), left: 600})
		p.w = newReplicatedAt(t, MaxFeatureLevel, protocolC)
		p.at, p.created = p.w.index, 1
		for step := 0; p.more(); step++ {
			e := p.next()
			if p.roll(5) > 0 {
				actor, body := p.realisticStep()
				e.cmd = envelope(actor, fmt.Sprintf("life %d", e.index), e.index-1, body)
			}
			if e.cmd.GetLoseNode() == nil || p.roll(6) == 0 {
				p.w.s.Apply(e.index, e.cmd)
			}
			if step%10 == 0 {
				checkEachHost(t, p.w.s, tally)
			}
		}
	}
	for _, what := range []string{"goes on", "taken over", "kept"} {
		require.Greater(t, tally[what], 5, "%s: %v", what, tally)
	}
}

func checkEachHost(t *testing.T, s *State, tally map[string]int) {
	for n := range s.Nodes() {
		if n.State == NodeReachable {
			(&stopTrial{t, s, n, tally}).check()
		}
	}
}

func (x *stopTrial) check() {
	f := Failure{Nodes: []NodeID{x.node.ID}}
	said := map[VolumeID]Impact{}
	impact := x.s.IfStopped(f)
	for _, v := range impact.Volumes {
		said[v.Volume.ID] = v.Impact
	}
	before := x.s.beforeFailure(f)
	for v := range x.s.VolumesOn(x.node.ID) {
		if _, ready := v.Phase.(Ready); !ready || v.Replication == nil || v.converting() != nil {
			continue
		}
		now := before.impactOf(v)
		if max(now, said[v.ID]) < ImpactUnavailable {
			x.checkUse(v)
		}
		if max(now, said[v.ID]) < ImpactLost {
			x.checkKept(v)
		}
	}
}

// checkKept: what is left after the loss of the host has the content.
func (x *stopTrial) checkKept(v *Volume) {
	fork := x.s.Fork()
	x.apply(fork, admin, &fsmpb.LoseNode{NodeId: string(x.node.ID), HostId: string(x.node.Host)})
	left, ok := fork.Volume(v.ID)
	require.True(x.t, ok)
	require.IsType(x.t, Ready{}, left.Phase, "volume %s without host %s", v.ID, x.node.Host)
	require.True(x.t, left.hasGoodCopy(), "volume %s without host %s", v.ID, x.node.Host)
	x.tally["kept"]++
}

// checkUse: its primary goes on, or the host of another replica becomes it.
func (x *stopTrial) checkUse(v *Volume) {
	fork := x.stopped()
	if primary := x.s.PrimaryHost(v); primary != "" && primary != x.node.Host {
		x.checkGoesOn(fork, v, v.ActiveReplica(primary))
		return
	}
	x.apply(fork, admin, &fsmpb.UnpublishVolume{VolumeId: string(v.ID)})
	var refused []*fsmpb.Rejection
	for _, l := range v.ActiveReplicas() {
		if l.Host == x.node.Host {
			continue
		}
		switch rej := x.takeOver(fork.Fork(), v, l); {
		case rej == nil:
			x.tally["taken over"]++
			return
		case Reason(rej.GetReason()) == Precondition:
			refused = append(refused, rej)
		default: // others than those that stopped are waited for
			x.tally["waits"]++
			return
		}
	}
	require.Empty(x.t, refused, "volume %s without host %s", v.ID, x.node.Host)
}

// checkGoesOn: the log lets the primary go on without the host.
func (x *stopTrial) checkGoesOn(fork *State, v *Volume, l *Replica) {
	if peer := v.PeerReplica(l.Host); peer == nil || peer.Host != x.node.Host {
		return
	}
	n, _ := fork.nodeOfReplica(l)
	now, _ := fork.Volume(v.ID)
	seen := l.Observed
	seen.Suspended, seen.Connection, seen.PeerDisk = true, connecting, 0
	out := x.apply(fork, "node/"+string(n.ID), &fsmpb.Outdate{
		VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Generation: now.Replication.Generation, Seen: seen.Proto(),
	})
	require.Contains(x.t, []fsmpb.Verdict{fsmpb.Verdict_VERDICT_PEER_OUTDATED, fsmpb.Verdict_VERDICT_PENDING}, out.GetVerdict(),
		"volume %s on %s without host %s: %v", v.ID, n.ID, x.node.Host, out)
	x.tally["goes on"]++
}

// takeOver publishes the volume to the replica's host, which disconnected the one that stopped and asks to be primary.
func (x *stopTrial) takeOver(fork *State, v *Volume, l *Replica) *fsmpb.Rejection {
	n, _ := fork.nodeOfReplica(l)
	published := x.apply(fork, admin, &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(l.Node), Capability: v.Capabilities[0].pb()})
	if published.GetRejection() != nil {
		published.Rejection.Reason = uint32(Busy) // of its site or its other users: not of its content
		return published.GetRejection()
	}
	now, _ := fork.Volume(v.ID)
	seen := now.ActiveReplica(l.Host).Observed
	seen.Connection, seen.PeerDisk, seen.Generation = standAlone, 0, now.Replication.Generation
	return x.apply(fork, "node/"+string(n.ID), &fsmpb.SetPrimary{
		VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Epoch: published.GetEpoch(), Seen: seen.Proto(),
	}).GetRejection()
}
