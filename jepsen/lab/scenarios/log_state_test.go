package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// volumeState is what the log knows of a volume.
type volumeState struct {
	Publications, Teardowns []struct{ Node string }
	Replication             struct{ Generation json.Number }
	Replicas                []replicaState
	Relation                *relationState
}

// relationState is what the log knows of its replication between sites.
type relationState struct {
	Primary string
	Role    json.Number
	Status  string
	GivenUp *struct {
		Index      json.Number
		RevertedTo string `json:"reverted_to"`
	} `json:"given_up"`
}

// replicaState is what the log knows of a replica, most of it by its host's last report.
type replicaState struct {
	Node                   string
	Generation             json.Number
	Disk, Connection, Role string
	PeerDisk               string `json:"peer_disk"`
	UpToDate               bool   `json:"up_to_date"`
	UUID                   string `json:"current_uuid"`
}

// logState reads it from a controller that is not behind the log.
func (w *env) logState(ctx context.Context, v *volume) (volumeState, error) {
	var all struct {
		Volumes []volumeState `json:"volumes"`
	}
	if err := w.cluster.Ask(ctx, &all, "volumes", v.id); err != nil {
		return volumeState{}, err
	}
	if len(all.Volumes) != 1 {
		return volumeState{}, fmt.Errorf("the log has %+v", all.Volumes)
	}
	return all.Volumes[0], nil
}

// awaitOnBoth waits until the log's state of the volume and of each of its two replicas is as asked. One kernel's
// state says neither what the peer's kernel knows nor what the hosts have reported, and the log decides by their reports.
func (w *env) awaitOnBoth(t *testing.T, v *volume, within time.Duration, what string, ok func(volumeState, replicaState) bool) {
	t.Helper()
	eventually(t, within, "the log: "+v.name+" "+what, func(ctx context.Context) error {
		s, err := w.logState(ctx, v)
		if err != nil {
			return err
		}
		if len(s.Replicas) == 2 && ok(s, s.Replicas[0]) && ok(s, s.Replicas[1]) {
			return nil
		}
		return fmt.Errorf("it is %+v", s)
	})
}

// isInSync: the log has the replica as up to date, and its host reported that of both in the present generation.
func isInSync(s volumeState, r replicaState) bool {
	return r.UpToDate && r.Disk == "up_to_date" && r.PeerDisk == "up_to_date" && r.Connection == "connected" && r.Generation == s.Replication.Generation
}

// awaitInSync waits until the log has both replicas as up to date by the reports of both hosts, as a scenario needs it
// before it takes one of them away: the other may be used without it only then.
func (w *env) awaitInSync(t *testing.T, v *volume) {
	t.Helper()
	w.awaitOnBoth(t, v, resyncTimeout, "has two replicas that are up to date", isInSync)
}

// awaitSynchronised waits until a host's kernel says that both are up to date again, and then until the log does:
// before the kernel does, the log may be of the time before what was done last.
func (w *env) awaitSynchronised(t *testing.T, v *volume, node, what string) {
	t.Helper()
	w.awaitKernel(t, v, node, resyncTimeout, what, isUpToDate)
	w.awaitInSync(t, v)
}
