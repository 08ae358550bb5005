package session

import (
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// desiredVolumeToProto and desiredVolumeFromProto keep every field: a host decides by all of them.
func desiredVolumeToProto(w fsm.DesiredVolume) *sessionpb.Wish {
	p := &sessionpb.Wish{
		VolumeId:    string(w.Volume),
		PoolId:      string(w.Pool),
		SizeBytes:   w.Size,
		Verb:        uint32(w.Goal),
		Format:      w.Format.Proto(),
		Publication: publicationToProto(w.Publication),
		Sequence:    w.Sequence,
		OperationId: uint64(w.Operation),
		Attempt:     w.Attempt,
		Replica:     uint32(w.ReplicaState),
		Source:      w.Source.Proto(),
		Limits:      w.Limits.Proto(),

		SourceSizeBytes: w.SourceSize,
		Replication:     desiredReplicaToProto(w.Replication),

		ModifyOperationId: uint64(w.ModifyOperation),
		ModifyAttempt:     w.ModifyAttempt,
	}
	if t := w.Teardown; t != nil {
		p.TeardownEpoch, p.TeardownNode, p.TeardownHost = t.Epoch.Proto(), string(t.Node), string(t.Host)
	}
	return p
}

func desiredVolumeFromProto(p *sessionpb.Wish) fsm.DesiredVolume {
	w := fsm.DesiredVolume{
		Volume:       fsm.VolumeID(p.GetVolumeId()),
		Pool:         fsm.PoolID(p.GetPoolId()),
		Size:         p.GetSizeBytes(),
		Goal:         fsm.Goal(uint8OrZero(p.GetVerb())),
		Format:       fsm.FormatFrom(p.GetFormat()),
		Publication:  publicationFromProto(p.GetPublication()),
		Sequence:     p.GetSequence(),
		Operation:    fsm.OperationID(p.GetOperationId()),
		Attempt:      p.GetAttempt(),
		ReplicaState: fsm.ReplicaState(uint8OrZero(p.GetReplica())),
		Source:       fsm.SourceFrom(p.GetSource()),
		SourceSize:   p.GetSourceSizeBytes(),
		Limits:       fsm.LimitsFrom(p.GetLimits()),
		Replication:  desiredReplicaFromProto(p.GetReplication()),

		ModifyOperation: fsm.OperationID(p.GetModifyOperationId()),
		ModifyAttempt:   p.GetModifyAttempt(),
	}
	if p.TeardownEpoch != nil {
		w.Teardown = &fsm.Teardown{
			Node: fsm.NodeID(p.GetTeardownNode()), Host: fsm.HostID(p.GetTeardownHost()), Epoch: fsm.EpochFrom(p.GetTeardownEpoch()),
		}
	}
	return w
}

// uint8OrZero reads a small number of a newer build as zero, which is invalid, rather
// than as another one that fits.
func uint8OrZero(n uint32) uint8 {
	if n > 255 {
		return 0
	}
	return uint8(n)
}

func publicationToProto(p *fsm.Publication) *sessionpb.Publication {
	if p == nil {
		return nil
	}
	out := &sessionpb.Publication{
		NodeId:     string(p.Node),
		HostId:     string(p.Host),
		Capability: p.Capability.TextProto(),
		ReadOnly:   p.ReadOnly,
		Epoch:      p.Epoch.Proto(),
		Ending:     p.Ending,
		UsedBy:     p.UsedBy,
	}
	if s := p.Staging; s != nil {
		out.Staging = &sessionpb.Staging{Path: s.Path, Boot: s.Boot, Capability: s.Capability.TextProto(), Done: s.Done}
	}
	for _, t := range p.Targets {
		out.Targets = append(out.Targets, &sessionpb.Target{
			Path: t.Path, ReadOnly: t.ReadOnly, Capability: t.Capability.TextProto(),
			Fingerprint: []byte(t.Fingerprint), Done: t.Done,
		})
	}
	return out
}

func publicationFromProto(p *sessionpb.Publication) *fsm.Publication {
	if p == nil {
		return nil
	}
	out := &fsm.Publication{
		Node:       fsm.NodeID(p.GetNodeId()),
		Host:       fsm.HostID(p.GetHostId()),
		Capability: fsm.CapabilityFromText(p.GetCapability()),
		ReadOnly:   p.GetReadOnly(),
		Epoch:      fsm.EpochFrom(p.GetEpoch()),
		Ending:     p.GetEnding(),
		UsedBy:     p.GetUsedBy(),
	}
	if s := p.GetStaging(); s != nil {
		out.Staging = &fsm.Staging{Path: s.GetPath(), Boot: s.GetBoot(), Capability: fsm.CapabilityFromText(s.GetCapability()), Done: s.GetDone()}
	}
	for _, t := range p.GetTargets() {
		out.Targets = append(out.Targets, fsm.Target{
			Path: t.GetPath(), ReadOnly: t.GetReadOnly(), Capability: fsm.CapabilityFromText(t.GetCapability()),
			Fingerprint: string(t.GetFingerprint()), Done: t.GetDone(),
		})
	}
	return out
}
