package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// HeaderRestore is an operator's decision that a host may write its backup of the LUKS header onto the device, where
// the header is missing. It is used by the next stage there, and ends when that is done.
type HeaderRestore struct {
	Node  NodeID
	Host  HostID
	UUID  string // of the header
	Index uint64 // when it was decided
}

// The number before a restore in a volume's hash, and before one in a grant's.
const fieldHeaderRestore = 97

func (h *HeaderRestore) hash(e *encoder) {
	if h == nil {
		return
	}
	e.u64(fieldHeaderRestore)
	e.str(string(h.Node))
	e.str(string(h.Host))
	e.str(h.UUID)
	e.u64(h.Index)
}

func (h *HeaderRestore) record() *fsmpb.HeaderRestoreRecord {
	if h == nil {
		return nil
	}
	return &fsmpb.HeaderRestoreRecord{NodeId: string(h.Node), HostId: string(h.Host), LuksUuid: h.UUID, Index: h.Index}
}

func headerRestoreFrom(r *fsmpb.HeaderRestoreRecord) *HeaderRestore {
	if r == nil {
		return nil
	}
	return &HeaderRestore{Node: NodeID(r.GetNodeId()), Host: HostID(r.GetHostId()), UUID: r.GetLuksUuid(), Index: r.GetIndex()}
}

// applyRestoreHeader records the decision (S62). Only of a header that the log says was made, and by its UUID: the
// host compares its backup with that, and writes over no header that is there.
func applyRestoreHeader(s *State, m Meta, c *fsmpb.RestoreHeader) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.readyVolume(c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	requested := HeaderRestore{Node: NodeID(c.GetNodeId()), Host: HostID(c.GetHostId()), UUID: c.GetLuksUuid(), Index: m.Index}
	if rej := s.checkRestoreHeader(v, &requested); rej != nil {
		return nil, rej
	}
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	if h := v.HeaderRestore; h != nil && h.Host == requested.Host && h.UUID == requested.UUID {
		return out, nil
	}
	updated := *v
	updated.HeaderRestore = &requested
	s.putVolume(updated)
	return out, nil
}

func (s *State) checkRestoreHeader(v *Volume, requested *HeaderRestore) *Rejection {
	n, ok := s.Node(requested.Node)
	r := v.Replica(requested.Host)
	switch {
	case v.Crypt == nil:
		return Reject(Precondition, "restore the header of volume %s: it is not encrypted", v.ID)
	case v.Crypt.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED:
		return Reject(Precondition, "restore the header of volume %s: the log does not say that it was made; the next stage makes it", v.ID)
	case v.Crypt.UUID != requested.UUID:
		return Reject(Precondition, "restore the header of volume %s: it is %s by the log, not %s", v.ID, v.Crypt.UUID, clip(requested.UUID))
	case !ok || n.Host != requested.Host:
		return Reject(Precondition, "restore the header of volume %s: node %s is not host %s", v.ID, clip(string(requested.Node)), clip(string(requested.Host)))
	case r == nil || r.State != ReplicaPresent:
		return Reject(Precondition, "restore the header of volume %s: node %s has no replica of it", v.ID, n.ID)
	}
	return nil
}

// restoresHeader tells whether the host may restore the header.
func (v *Volume) restoresHeader(host HostID) bool {
	h := v.HeaderRestore
	return h != nil && h.Host == host && v.Crypt != nil && h.UUID == v.Crypt.UUID
}

// withHeaderRestored is the volume once a host has staged it: its header is there.
func (v *Volume) withHeaderRestored(host HostID) Volume {
	updated := *v
	if v.restoresHeader(host) {
		updated.HeaderRestore = nil
	}
	return updated
}
