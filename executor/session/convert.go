package session

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// What a session carries of each type, both ways. Every field crosses: a host decides by all of
// them, and without a generation, a UUID or a flag it would decide wrongly (S5, S7).
var (
	desiredVolumes   = newConverter[fsm.DesiredVolume, sessionpb.DesiredVolume](stateValues(), "Teardown", "TeardownEpoch", "TeardownNode", "TeardownHost")
	desiredSnapshots = newConverter[fsm.DesiredSnapshot, sessionpb.DesiredSnapshot](stateValues())
	poolFacts        = newConverter[executor.PoolFacts, sessionpb.PoolFacts](nil)
)

// stateValues are the conversions that commands have too.
func stateValues() valueCopies {
	values := valueCopies{}
	addValueCopy(values, fsm.Epoch.Proto, fsm.EpochFrom)
	addValueCopy(values, fsm.Format.Proto, fsm.FormatFrom)
	addValueCopy(values, fsm.Source.Proto, fsm.SourceFrom)
	addValueCopy(values, fsm.Limits.Proto, fsm.LimitsFrom)
	addValueCopy(values, fsm.Capability.TextProto, fsm.CapabilityFromText)
	addValueCopy(values, fsm.ReplicaObservation.Proto, fsm.ReplicaObservationFrom)
	return values
}

func desiredVolumeToProto(v fsm.DesiredVolume) *sessionpb.DesiredVolume {
	p := desiredVolumes.proto(&v)
	if t := v.Teardown; t != nil {
		p.TeardownEpoch, p.TeardownNode, p.TeardownHost = t.Epoch.Proto(), string(t.Node), string(t.Host)
	}
	return p
}

func desiredVolumeFromProto(p *sessionpb.DesiredVolume) fsm.DesiredVolume {
	v := desiredVolumes.read(p)
	if p.GetTeardownEpoch() != nil {
		v.Teardown = &fsm.Teardown{
			Node: fsm.NodeID(p.GetTeardownNode()), Host: fsm.HostID(p.GetTeardownHost()), Epoch: fsm.EpochFrom(p.GetTeardownEpoch()),
		}
	}
	return v
}

func desiredSnapshotToProto(s fsm.DesiredSnapshot) *sessionpb.DesiredSnapshot {
	return desiredSnapshots.proto(&s)
}

func telemetryToProto(facts []executor.PoolFacts) *sessionpb.Telemetry {
	return &sessionpb.Telemetry{Pools: convertAll(facts, func(f executor.PoolFacts) *sessionpb.PoolFacts { return poolFacts.proto(&f) })}
}
