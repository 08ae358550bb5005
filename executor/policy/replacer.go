package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// maxConcurrentResyncs bounds the volumes that are synchronised onto new replicas at
	// once: each copies a whole volume over the network.
	maxConcurrentResyncs = 4
	// replaceRetryInterval is after how long a volume is looked at again that could not be mended.
	replaceRetryInterval = time.Minute
)

// mending decides when a replicated volume gets another replica for one whose host
// is away (--replace-after). It is pure: time is passed in, and decides nothing about
// safety (S27): a replica is given up only where nothing suggests that its host
// still writes, and the state refuses it where the other is not up to date.
//
// Only what one leader saw between two exchanges counts.
type replicaReplacer struct {
	replaceAfter time.Duration // --replace-after; 0: off
	clock        pollClock
	missing      map[fsm.VolumeID]missingReplica
}

// missingReplica is how long a volume lacked a replica, and when it is looked at again.
type missingReplica struct {
	host       fsm.HostID // whose replica is away; empty: there is none in its place
	missingFor time.Duration
	retryAt    time.Duration
}

// degradedVolume is a replicated volume that lacks a replica.
type degradedVolume struct {
	volume fsm.VolumeID
	// node and host are of the replica that is away, empty when there is none at all.
	node fsm.NodeID
	host fsm.HostID
	// writeRisk says why the host may still write, empty when nothing suggests it.
	writeRisk string
}

// dryRunFunc tells whether the state would take the commands one after the other.
type dryRunFunc func(commands ...*fsmpb.Command) error

// decide takes in an exchange and says what is to be proposed: first that a replica
// is given up, then, at a later exchange, that there is a new one. busy is how many
// volumes are being synchronised.
func (m *replicaReplacer) decide(x pollResult, volumes []degradedVolume, resyncing int, dryRun dryRunFunc) []*fsmpb.Command {
	if x.term != m.clock.term {
		m.missing = nil // what an earlier leader saw is not known
	}
	elapsed, _ := m.clock.advance(x)
	if m.replaceAfter == 0 {
		return nil
	}
	missing := make(map[fsm.VolumeID]missingReplica, len(volumes))
	var all []*fsmpb.Command
	for _, v := range byUrgency(volumes) {
		l := m.trackMissing(&v, elapsed)
		if l.due(m.replaceAfter) && v.writeRisk == "" && resyncing+len(all) < maxConcurrentResyncs {
			l.retryAt = l.missingFor + replaceRetryInterval
			if cmd := v.nextCommand(dryRun); cmd != nil {
				all = append(all, cmd)
			}
		}
		missing[v.volume] = l
	}
	m.missing = missing
	return all
}

// byUrgency are the volumes in a fixed order, those first that gave up a replica already.
func byUrgency(volumes []degradedVolume) []degradedVolume {
	all := slices.Clone(volumes)
	slices.SortFunc(all, func(a, b degradedVolume) int {
		return cmp.Or(cmp.Compare(len(a.host), len(b.host)), cmp.Compare(a.volume, b.volume))
	})
	return all
}

// trackMissing adds to a volume's lack. It goes on when the replica that was away is given
// up, and begins anew when another one is away.
func (m *replicaReplacer) trackMissing(v *degradedVolume, elapsed time.Duration) missingReplica {
	l, known := m.missing[v.volume]
	switch {
	case !known, l.host != v.host && v.host != "":
		return missingReplica{host: v.host}
	case l.host != v.host:
		l.host, l.retryAt = "", 0
	}
	l.missingFor += elapsed
	return l
}

func (l missingReplica) due(replaceAfter time.Duration) bool {
	return l.missingFor >= max(replaceAfter, l.retryAt)
}

// mend is the next command for the volume; nil where the state would not take it, or
// where there is no room for the replica that is to come after it.
func (v *degradedVolume) nextCommand(dryRun dryRunFunc) *fsmpb.Command {
	const reason = "its host was away for longer than --replace-after"
	add := &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{
		VolumeId: string(v.volume), Reason: reason,
	}}}
	if v.host == "" {
		if dryRun(add) != nil {
			return nil
		}
		return add
	}
	remove := &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(v.volume), NodeId: string(v.node), HostId: string(v.host), Reason: reason,
	}}}
	if dryRun(remove, add) != nil {
		return nil
	}
	return remove
}
