package agent

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportReplica reports the observed replica when it differs from what the log has (S10). One
// report at a time is under way, so that they are applied in their order.
func (r *replicaReporter) reportReplica(ctx context.Context, v *volume, view *plan.VolumeView) error {
	d := view.Desired
	if d == nil || d.Replication == nil {
		return nil
	}
	obs, err := r.observer.observeToReport(ctx, v)
	if err != nil || !r.observer.differsFromLog(v, obs) {
		return err
	}
	f := plan.Fact{Name: plan.FactReplicaObserved, Path: fmt.Sprint(obs)}
	if r.isAcked(v, f) || r.replicaReportInFlight(v) {
		return nil
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: obs.Proto()}}
	r.volumeReports.sendFact(v, f, ob)
	return nil
}

// unreportedReplica is the observation, if the log does not have it, that must precede the report
// that nothing of the volume is up: that this replica is not primary. Without it the state
// machine takes no teardown and no grant for ended.
func (o *observer) unreportedReplica(ctx context.Context, v *volume) []*fsmpb.Observation {
	o.mu.Lock()
	replicated := v.desired != nil && v.desired.Replication != nil
	o.mu.Unlock()
	if !replicated {
		return nil
	}
	obs, err := o.observeToReport(ctx, v)
	if err != nil || !o.differsFromLog(v, obs) {
		return nil
	}
	return []*fsmpb.Observation{{VolumeId: string(v.id), Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: obs.Proto()}}}
}

// observeToReport observes the replica, and records what the log concludes from it.
func (o *observer) observeToReport(ctx context.Context, v *volume) (fsm.ReplicaObservation, error) {
	obs, have, err := o.observeReplica(ctx, v)
	if err == nil {
		err = o.records.recordShared(v, have)
	}
	return obs, err
}

// differsFromLog reports whether the log's last observation is another. An attachment that is
// not committed is not reported.
func (o *observer) differsFromLog(v *volume, obs fsm.ReplicaObservation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v.desired == nil || v.desired.Replication == nil {
		return false
	}
	return obs != v.desired.Replication.Observed && (obs.Unconfigured || obs.Attachment == v.desired.Replication.Attachment)
}

// replicaReportInFlight reports whether an earlier observation of the replica is under way.
func (r *replicaReporter) replicaReportInFlight(v *volume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range v.inFlight {
		if f.Name == plan.FactReplicaObserved {
			return true
		}
	}
	return false
}
