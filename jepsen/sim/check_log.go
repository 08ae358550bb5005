package sim

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// hosts judges what the log takes of hosts: each speaks of its current boot (S2, S5), of the publication that there
// is (S3), and gives no two records of a volume one number (S16).
type hosts struct {
	s        *Sim
	requests map[string]bool // that the log has taken; a repetition gets the first answer
	numbers  map[onHost]map[uint64]string
}

// onHost is a host's replica of a volume.
type onHost struct {
	volume fsm.VolumeID
	host   fsm.HostID
}

// ofHost is a command that a host proposes about itself.
type ofHost interface {
	GetNodeId() string
	GetHostId() string
	GetBootId() string
}

func newHosts(s *Sim) *hosts {
	return &hosts{s: s, requests: map[string]bool{}, numbers: map[onHost]map[uint64]string{}}
}

// judge looks at the state before a command, and returns what looks at it afterwards.
func (c *hosts) judge(cmd *fsmpb.Command) func(*fsmpb.Outcome) {
	body, ok := bodyOf(cmd).(ofHost)
	if !ok || cmd.GetRegisterNode() != nil || c.requests[string(cmd.GetRequestId())] {
		return func(*fsmpb.Outcome) {}
	}
	boot, reports := "", c.otherEpochs(cmd.GetReport())
	if n, known := c.s.log.state.Node(fsm.NodeID(body.GetNodeId())); known {
		boot = n.Boot
	}
	return func(outcome *fsmpb.Outcome) {
		if outcome.GetRejection() != nil {
			return
		}
		c.requests[string(cmd.GetRequestId())] = true
		if boot != body.GetBootId() {
			c.s.fail("boot: the log took %s of %s, which %s is not any more", commandName(cmd), body.GetBootId(), body.GetNodeId())
		}
		c.unchanged(cmd, reports)
		c.numbered(cmd, fsm.HostID(body.GetHostId()))
	}
}

// otherEpochs are the publications of the volumes of which a report names none but other epochs.
func (c *hosts) otherEpochs(r *fsmpb.Report) map[fsm.VolumeID]fsm.Publication {
	all := map[fsm.VolumeID]fsm.Publication{}
	for _, o := range r.GetObservations() {
		id := fsm.VolumeID(o.GetVolumeId())
		v, ok := c.s.log.state.Volume(id)
		if !ok || o.GetSnapshotId() != "" {
			continue
		}
		switch p := v.Publication(fsm.NodeID(r.GetNodeId())); {
		case p == nil:
		case fsm.EpochFrom(o.GetEpoch()) == p.Epoch:
			delete(all, id)
			return all
		case o.GetEpoch() != nil:
			all[id] = *p
		}
	}
	return all
}

// unchanged: a report of an earlier publication changes nothing of the current one.
func (c *hosts) unchanged(cmd *fsmpb.Command, before map[fsm.VolumeID]fsm.Publication) {
	for id, p := range before {
		v, ok := c.s.log.state.Volume(id)
		if !ok {
			continue
		}
		if now := v.Publication(p.Node); now == nil || !reflect.DeepEqual(*now, p) {
			c.s.fail("epoch: %s changed the publication under %s, which it is not about", commandName(cmd), p.Epoch)
		}
	}
}

// numbered notes the numbers of a host's records. The record of a teardown is on the host's disk before it is sent,
// with a number that was of nothing else.
func (c *hosts) numbered(cmd *fsmpb.Command, host fsm.HostID) {
	if p, ok := bodyOf(cmd).(interface {
		GetVolumeId() string
		GetSequence() uint64
	}); ok {
		c.number(onHost{fsm.VolumeID(p.GetVolumeId()), host}, p.GetSequence(), commandName(cmd), false)
	}
	for _, o := range cmd.GetReport().GetObservations() {
		if o.GetSnapshotId() == "" {
			c.number(onHost{fsm.VolumeID(o.GetVolumeId()), host}, o.GetSequence(), aboutOf(o), o.GetUnstaged() != nil || o.GetTargetGone() != nil)
		}
	}
}

func aboutOf(o *fsmpb.Observation) string {
	fact := strings.TrimPrefix(fmt.Sprintf("%T", o.GetFact()), "*fsmpb.Observation_")
	return fmt.Sprintf("%s %s %s", fact, fsm.EpochFrom(o.GetEpoch()), o.GetTargetGone().GetTargetPath())
}

// number notes what the log has taken with a number, and judges another teardown that comes with it.
func (c *hosts) number(at onHost, number uint64, about string, down bool) {
	v, ok := c.s.log.state.Volume(at.volume)
	if !ok || v.Replica(at.host) == nil {
		delete(c.numbers, at)
		return
	}
	if number == 0 {
		return
	}
	if c.numbers[at] == nil {
		c.numbers[at] = map[uint64]string{}
	}
	switch other := c.numbers[at][number]; {
	case other == "" && v.Replica(at.host).Sequence == number:
		c.numbers[at][number] = about
	case down && other != "" && other != about:
		c.s.fail("numbers: %s has number %d of volume %s, which is of %s", about, number, at.volume, other)
	}
}
