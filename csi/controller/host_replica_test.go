package controller_test

import (
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// side plays one host's side of a replicated volume: what the kernel would say of it.
type side struct {
	attach  uint64
	uuid    uint64
	whole   bool // it met its peer once
	primary bool
	made    bool
}

// replicated makes a host that holds replicas.
func replicated(id fsm.NodeID, zone string) func(*cluster) *host {
	return func(c *cluster) *host {
		h := newHost(c, id, &fsmpb.Label{Key: fsm.ZoneKey, Value: zone})
		h.address = "192.0.2.1"
		return h
	}
}

func (h *host) replication() *fsmpb.Replication {
	if h.address == "" {
		return nil
	}
	return &fsmpb.Replication{Address: h.address, PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}
}

// peer is the host of that node, nil when it is idle: it does not run.
func (c *cluster) peer(id fsm.NodeID) *host {
	for _, h := range c.hosts {
		h.mu.Lock()
		idle := h.idle
		h.mu.Unlock()
		if h.id == id && !idle {
			return h
		}
	}
	return nil
}

// replicate does what the log wishes of one side, and reports what is seen then.
func (h *host) replicate(w *fsm.DesiredVolume) {
	if w.Goal == fsm.GoalRemove || w.ReplicaState == fsm.ReplicaLeaving {
		return
	}
	own := h.side(w)
	h.mu.Lock()
	slow := h.slow
	h.mu.Unlock()
	if w.Teardown != nil {
		own.primary = false
	}
	if w.Replication.Primary && !w.Replication.PromotionDone && !slow {
		own.primary = h.askForPrimary(w, own)
	}
	if seen := h.observe(w, own); seen != w.Replication.Observed {
		h.report(&fsmpb.Observation{VolumeId: string(w.Volume), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}})
	}
	if w.Teardown != nil {
		h.reportUnstaged(w.Volume, w.Teardown.Epoch)
	}
}

// side is this host's of the volume; it is attached when it is first looked at.
func (h *host) side(w *fsm.DesiredVolume) *side {
	h.mu.Lock()
	own := h.sides[w.Volume]
	if own == nil {
		own = &side{attach: w.Replication.Attachment + 1, uuid: 0x10}
		h.sides[w.Volume] = own
	}
	h.mu.Unlock()
	if own.attach != w.Replication.Attachment {
		_, _ = h.propose(&fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
			VolumeId: string(w.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Attach: own.attach,
		}}})
	}
	return own
}

// observe is what the kernel would say.
func (h *host) observe(w *fsm.DesiredVolume, own *side) fsm.ReplicaObservation {
	seen := fsm.ReplicaObservation{
		Boot: "boot", Attachment: own.attach, Primary: own.primary, UUID: own.uuid, Generation: w.Replication.Generation,
		Connection: fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE, Disk: fsmpb.DiskState_DISK_STATE_INCONSISTENT,
		BackingCapacity: w.Size,
	}
	if w.Replication.Connect {
		seen.Connection = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	}
	if other := h.connected(w); other != nil {
		own.whole = true
		if other.primary {
			own.uuid, seen.UUID = other.uuid, other.uuid
		}
		seen.Connection, seen.PeerDisk = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	if own.whole {
		seen.Disk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	return seen
}

// connected is the peer's side when both hosts run and both are to be connected.
func (h *host) connected(w *fsm.DesiredVolume) (other *side) {
	if !w.Replication.Connect || w.Replication.Peer == nil {
		return nil
	}
	peer := h.cluster.peer(w.Replication.Peer.Node)
	if peer == nil {
		return nil
	}
	connect := false
	_ = h.cluster.View(func(s *fsm.State) error {
		if theirs, ok := s.DesiredVolume(peer.id, w.Volume); ok && theirs.Replication != nil {
			connect = theirs.Replication.Connect
		}
		return nil
	})
	peer.mu.Lock()
	defer peer.mu.Unlock()
	if !connect {
		return nil
	}
	return peer.sides[w.Volume]
}

// askForPrimary is the grant that a host needs before it sets its replica primary (S2).
func (h *host) askForPrimary(w *fsm.DesiredVolume, own *side) bool {
	if own.primary {
		return true
	}
	seen := h.observe(w, own)
	_, err := h.propose(&fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(w.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot",
		Epoch: w.Publication.Epoch.Proto(), Seen: seen.Proto(),
	}}})
	if err == nil && !seen.Connected() {
		own.uuid += 0x10 // it goes on alone
	}
	return err == nil
}
