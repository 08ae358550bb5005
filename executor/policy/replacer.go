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
	// replaceRetryInterval is the delay after which a replacement that was refused is tried again.
	replaceRetryInterval = time.Minute
)

// replicaReplacer decides when a replicated volume gets another replica for one whose host
// is unreachable (--replace-after). It is pure: time is passed in, and decides nothing about
// safety (S27): a replica is removed only where nothing suggests that its host
// still writes, and the state refuses it where the other one is not up to date.
//
// Only time that one leader observed between two polls counts.
type replicaReplacer struct {
	replaceAfter time.Duration // --replace-after; 0: replicas are not replaced
	clock        pollClock
	missing      map[fsm.VolumeID]missingReplica
}

// missingReplica is for how long a volume has had a missing replica, and when a replacement is tried again.
type missingReplica struct {
	host       fsm.HostID // that is unreachable; empty: the replica was removed, and no other was added
	missingFor time.Duration
	retryAt    time.Duration
}

// degradedVolume is a replicated volume with a missing replica.
type degradedVolume struct {
	volume fsm.VolumeID
	// node and host are those of the unreachable replica, empty when there are too few replicas.
	node fsm.NodeID
	host fsm.HostID
	// writeRisk is why the host may still write, empty when nothing suggests it.
	writeRisk string
}

// dryRunFunc returns the first rejection when the commands are applied to a copy of the state.
type dryRunFunc func(commands ...*fsmpb.Command) error

// decide returns what is to be proposed after a poll: first the removal of a replica,
// then, after a later poll, the addition of another. resyncing is how many
// volumes are resynchronising.
func (m *replicaReplacer) decide(x pollResult, volumes []degradedVolume, resyncing int, dryRun dryRunFunc) []*fsmpb.Command {
	if x.term != m.clock.term {
		m.missing = nil // what an earlier leader counted is not known
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

// byUrgency sorts volumes whose replica was removed already before the others.
func byUrgency(volumes []degradedVolume) []degradedVolume {
	all := slices.Clone(volumes)
	slices.SortFunc(all, func(a, b degradedVolume) int {
		return cmp.Or(cmp.Compare(len(a.host), len(b.host)), cmp.Compare(a.volume, b.volume))
	})
	return all
}

// trackMissing adds to the time with a missing replica. It continues when the unreachable replica is
// removed, and restarts when another one is unreachable.
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

// nextCommand is the next command for the volume; nil where the state would refuse it, or
// where there is no room for the replica that must be added afterwards.
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
