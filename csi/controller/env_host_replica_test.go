package controller_test

import (
	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// fakeReplica plays one host's replica of a replicated volume: what its kernel would
// report.
type fakeReplica struct {
	incarnation uint64
	uuid        uint64
	synced      bool // it met its peer once
	primary     bool
	made        bool
}

// replicatedHostIn makes a host in a zone that holds replicas.
func replicatedHostIn(id fsm.NodeID, zone string) func(*fakeCluster) *fakeHost {
	return func(c *fakeCluster) *fakeHost {
		h := newHost(c, id, &fsmpb.Label{Key: fsm.ZoneKey, Value: zone})
		h.address = "192.0.2.1"
		return h
	}
}

func (h *fakeHost) replication() *fsmpb.Replication {
	if h.address == "" {
		return nil
	}
	return &fsmpb.Replication{Address: h.address, PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}
}

// runningHost is the host of that node, nil when it is idle: it does not run.
func (c *fakeCluster) runningHost(id fsm.NodeID) *fakeHost {
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

// reconcileReplica converges this host's replica to its desired state, and reports what
// is observed then.
func (h *fakeHost) reconcileReplica(w *fsm.DesiredVolume) {
	if w.Goal == fsm.GoalRemove || w.ReplicaState == fsm.ReplicaLeaving {
		return
	}
	replica := h.replica(w)
	h.mu.Lock()
	delayed := h.delayed
	h.mu.Unlock()
	if w.Teardown != nil {
		replica.primary = false
	}
	h.reconcileOutdated(w)
	if w.Replication.Primary && !w.Replication.PromotionDone && !delayed {
		replica.primary = h.requestPrimary(w, replica)
	}
	if seen := h.observe(w, replica); seen != w.Replication.Observed {
		h.report(&fsmpb.Observation{VolumeId: string(w.Volume), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}})
	}
	if w.Teardown != nil {
		h.reportUnstaged(w.Volume, w.Teardown.Epoch)
	}
}

// replica is this host's of the volume; it is attached when it is first looked at.
func (h *fakeHost) replica(w *fsm.DesiredVolume) *fakeReplica {
	h.mu.Lock()
	replica := h.replicas[w.Volume]
	if replica == nil {
		replica = &fakeReplica{incarnation: w.Replication.Attachment + 1, uuid: 0x10}
		h.replicas[w.Volume] = replica
	}
	h.mu.Unlock()
	if replica.incarnation != w.Replication.Attachment {
		_, _ = h.propose(&fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
			VolumeId: string(w.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Attach: replica.incarnation,
		}}})
	}
	return replica
}

// observe is what the kernel would say.
func (h *fakeHost) observe(w *fsm.DesiredVolume, replica *fakeReplica) fsm.ReplicaObservation {
	seen := fsm.ReplicaObservation{
		Boot: "boot", Attachment: replica.incarnation, Primary: replica.primary, UUID: replica.uuid, Generation: w.Replication.Generation,
		Connection: fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE, Disk: fsmpb.DiskState_DISK_STATE_INCONSISTENT,
		BackingCapacity: w.Size,
	}
	if w.Replication.Connect {
		seen.Connection = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	}
	if peer := h.connectedPeer(w); peer != nil {
		replica.synced = true
		if peer.primary || w.Replication.Outdated {
			replica.uuid, seen.UUID = peer.uuid, peer.uuid
		}
		seen.Connection, seen.PeerDisk = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	if replica.synced {
		seen.Disk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	if w.Replication.Converting && seen.Connected() {
		return copyingFromSeed(w.Replication.Seed, seen)
	}
	return seen
}

// copyingFromSeed is an observation while the content is copied to the replica that is not the seed.
func copyingFromSeed(seed bool, seen fsm.ReplicaObservation) fsm.ReplicaObservation {
	if seed {
		seen.Connection, seen.PeerDisk = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, fsmpb.DiskState_DISK_STATE_INCONSISTENT
		return seen
	}
	seen.Connection, seen.Disk = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET, fsmpb.DiskState_DISK_STATE_INCONSISTENT
	return seen
}

// reconcileOutdated: the host's pool cannot keep what the replica has. Before a resynchronisation it goes on without;
// what was given up waits for a decision.
func (h *fakeHost) reconcileOutdated(w *fsm.DesiredVolume) {
	r := w.Replication
	h.mu.Lock()
	cannotKeep := h.cannotKeep
	h.mu.Unlock()
	if r.Apart || !r.KeepDue && (!r.Outdated || r.DiscardUnkept || !cannotKeep) {
		return
	}
	id, _ := uuid.NewRandom()
	_, _ = h.propose(&fsmpb.Command{Body: &fsmpb.Command_KeepReplica{KeepReplica: &fsmpb.KeepReplica{
		VolumeId: string(w.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot", Attach: r.Attachment,
		SnapshotId: "hs-" + id.String(), Trouble: "the pool is full", BeforeSync: r.KeepDue,
	}}})
}

// connectedPeer is the peer's replica when both hosts run and both are to be connected.
func (h *fakeHost) connectedPeer(w *fsm.DesiredVolume) (peerReplica *fakeReplica) {
	if !w.Replication.Connect || w.Replication.Peer == nil || h.waitsToKeep(w.Replication) {
		return nil
	}
	peer := h.cluster.runningHost(w.Replication.Peer.Node)
	if peer == nil {
		return nil
	}
	connect := false
	_ = h.cluster.View(func(s *fsm.State) error {
		if desired, ok := s.DesiredVolume(peer.id, w.Volume); ok && desired.Replication != nil {
			connect = desired.Replication.Connect
		}
		return nil
	})
	peer.mu.Lock()
	defer peer.mu.Unlock()
	if !connect {
		return nil
	}
	return peer.replicas[w.Volume]
}

// waitsToKeep: what the replica has must not be discarded, and cannot be kept (S48).
func (h *fakeHost) waitsToKeep(r *fsm.DesiredReplica) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cannotKeep && r.Outdated && !r.DiscardUnkept
}

// requestPrimary is the grant that a host needs before it sets its replica primary (S2).
func (h *fakeHost) requestPrimary(w *fsm.DesiredVolume, replica *fakeReplica) bool {
	if replica.primary {
		return true
	}
	seen := h.observe(w, replica)
	_, err := h.propose(&fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(w.Volume), NodeId: string(h.id), HostId: h.hostID, BootId: "boot",
		Epoch: w.Publication.Epoch.Proto(), Seen: seen.Proto(),
	}}})
	if err == nil && !seen.Connected() {
		replica.uuid += 0x10 // it goes on alone
	}
	return err == nil
}
