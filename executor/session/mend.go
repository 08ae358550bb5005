package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	// mendingAtOnce bounds the volumes that are synchronised onto new replicas at
	// once: each copies a whole volume over the network.
	mendingAtOnce = 4
	// mendAgain is after how long a volume is looked at again that could not be mended.
	mendAgain = time.Minute
)

// mending decides when a replicated volume gets another replica for one whose host
// is away (--replace-after). It is pure: time is passed in, and decides nothing about
// safety (S27): a replica is given up only where nothing suggests that its host
// still writes, and the state refuses it where the other is not up to date.
//
// Only what one leader saw between two exchanges counts.
type mending struct {
	after time.Duration // --replace-after; 0: off
	clock tally
	lacks map[fsm.VolumeID]lack
}

// lack is how long a volume lacked a replica, and when it is looked at again.
type lack struct {
	host   fsm.HostID // whose replica is away; empty: there is none in its place
	lasted time.Duration
	again  time.Duration
}

// impaired is a replicated volume that lacks a replica.
type impaired struct {
	volume fsm.VolumeID
	// node and host are of the replica that is away, empty when there is none at all.
	node fsm.NodeID
	host fsm.HostID
	// doubt says why the host may still write, empty when nothing suggests it.
	doubt string
}

// whatIf tells whether the state would take the commands one after the other.
type whatIf func(commands ...*fsmpb.Command) error

// decide takes in an exchange and says what is to be proposed: first that a replica
// is given up, then, at a later exchange, that there is a new one. busy is how many
// volumes are being synchronised.
func (m *mending) decide(x exchange, volumes []impaired, busy int, try whatIf) []*fsmpb.Command {
	if x.term != m.clock.term {
		m.lacks = nil // what an earlier leader saw is not known
	}
	passed := m.clock.passed(x)
	if m.after == 0 {
		return nil
	}
	lacks := make(map[fsm.VolumeID]lack, len(volumes))
	var all []*fsmpb.Command
	for _, v := range inTurn(volumes) {
		l := m.lacking(&v, passed)
		if l.due(m.after) && v.doubt == "" && busy+len(all) < mendingAtOnce {
			l.again = l.lasted + mendAgain
			if cmd := v.mend(try); cmd != nil {
				all = append(all, cmd)
			}
		}
		lacks[v.volume] = l
	}
	m.lacks = lacks
	return all
}

// inTurn are the volumes in a fixed order, those first that gave up a replica already.
func inTurn(volumes []impaired) []impaired {
	all := slices.Clone(volumes)
	slices.SortFunc(all, func(a, b impaired) int {
		return cmp.Or(cmp.Compare(len(a.host), len(b.host)), cmp.Compare(a.volume, b.volume))
	})
	return all
}

// lacking adds to a volume's lack. It goes on when the replica that was away is given
// up, and begins anew when another one is away.
func (m *mending) lacking(v *impaired, passed time.Duration) lack {
	l, known := m.lacks[v.volume]
	switch {
	case !known, l.host != v.host && v.host != "":
		return lack{host: v.host}
	case l.host != v.host:
		l.host, l.again = "", 0
	}
	l.lasted += passed
	return l
}

func (l lack) due(after time.Duration) bool { return l.lasted >= max(after, l.again) }

// mend is the next command for the volume; nil where the state would not take it, or
// where there is no room for the replica that is to come after it.
func (v *impaired) mend(try whatIf) *fsmpb.Command {
	const reason = "its host was away for longer than --replace-after"
	add := &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{
		VolumeId: string(v.volume), Reason: reason,
	}}}
	if v.host == "" {
		if try(add) != nil {
			return nil
		}
		return add
	}
	remove := &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(v.volume), NodeId: string(v.node), HostId: string(v.host), Reason: reason,
	}}}
	if try(remove, add) != nil {
		return nil
	}
	return remove
}
