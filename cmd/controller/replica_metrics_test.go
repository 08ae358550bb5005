package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// TestReplicasAreCountedByState follows a local and a replicated volume from the time they are planned on.
func TestReplicasAreCountedByState(t *testing.T) {
	s := newTwoSites(t)
	c := newReplicaCollector(s)
	requireStates := func(want map[string]float64) {
		t.Helper()
		for range 2 {
			got := gatherGauges(t, c)
			require.Len(t, got, len(replicaStates))
			for _, state := range replicaStates {
				require.Equal(t, want[state.name], got[`holdfast_cluster_replicas{state="`+state.name+`"}`], state.name)
			}
		}
	}
	reach := func(node string, reachable bool) {
		s.apply(t, "controller/cA", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: node, HostId: "h" + node, Reachable: reachable}}})
	}
	requireStates(nil)
	local := s.createAtA(9, &fsmpb.CreateVolume{})
	requireStates(map[string]float64{"planned": 1})
	s.made("n2", local)
	requireStates(map[string]float64{"up_to_date": 1})
	id := s.replicated(1)
	requireStates(map[string]float64{"up_to_date": 3})
	reach("n3", false)
	requireStates(map[string]float64{"up_to_date": 2, "unreachable": 1})
	reach("n3", true)
	s.see("n3", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	requireStates(map[string]float64{"up_to_date": 2, "disconnected": 1})
	s.see("n3", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED)
	s.goOnAlone(id)
	requireStates(map[string]float64{"up_to_date": 1, "disconnected": 1, "outdated": 1})
	reach("n3", false)
	requireStates(map[string]float64{"up_to_date": 1, "disconnected": 1, "outdated": 1})
	frozen := s.seen(id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	frozen.Primary, frozen.Suspended = true, true
	s.reportOf("n2", id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: frozen.Proto()}})
	requireStates(map[string]float64{"up_to_date": 1, "frozen": 1, "outdated": 1})
	s.reportOf("n2", local, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	requireStates(map[string]float64{"missing": 1, "frozen": 1, "outdated": 1})
}

func TestTheStateOfAReplicaIsTheFirstThatHolds(t *testing.T) {
	synced := func(change func(*fsm.ReplicaSync)) fsm.Replica {
		sync := &fsm.ReplicaSync{UpToDate: true, Observed: fsm.ReplicaObservation{Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED}}
		change(sync)
		return fsm.Replica{State: fsm.ReplicaPresent, ReplicaSync: sync}
	}
	for want, r := range map[string]fsm.Replica{
		"up_to_date":     synced(func(*fsm.ReplicaSync) {}),
		"disk_failed":    synced(func(s *fsm.ReplicaSync) { s.UpToDate, s.DiskFailed = false, 3 }),
		"not_up_to_date": synced(func(s *fsm.ReplicaSync) { s.UpToDate = false }),
		"syncing": synced(func(s *fsm.ReplicaSync) {
			s.UpToDate, s.Observed.Connection = false, fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		}),
		"planned": {State: fsm.ReplicaPlanned},
		"leaving": {State: fsm.ReplicaLeaving},
		"missing": {State: fsm.ReplicaMissing},
	} {
		require.Equal(t, want, replicaStateOf(&countedReplica{Replica: &r, reachable: true, hasPeer: r.ReplicaSync != nil, leaving: r.State == fsm.ReplicaLeaving}))
	}
}

// TestAnAuditIsKeptForScrapes: no scrape makes an audit, and the last one's result is what it shows.
func TestAnAuditIsKeptForScrapes(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	require.NotContains(t, b.get(c, "/metrics"), "holdfast_audit_")
	client := b.client(c, "admin", "a")
	for range 2 {
		require.NoError(t, client.TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) error {
			_, err := api.Audit(ctx, &adminpb.AuditRequest{})
			return err
		}))
		for _, kind := range []string{"orphan", "missing", "wrong", "unknown"} {
			require.Contains(t, b.get(c, "/metrics"), `holdfast_audit_findings{kind="`+kind+`"} 0`)
		}
		require.Contains(t, b.get(c, "/metrics"), "holdfast_audit_timestamp_seconds 1")
	}
	audits := newAuditMetrics()
	audits.note(&adminpb.AuditResponse{Orphans: []*adminpb.Finding{{}, {}}, Wrong: []*adminpb.Finding{{}}}, time.Unix(5, 0))
	require.Equal(t, map[string]float64{
		`holdfast_audit_findings{kind="orphan"}`: 2, `holdfast_audit_findings{kind="missing"}`: 0, `holdfast_audit_findings{kind="wrong"}`: 1,
		`holdfast_audit_findings{kind="unknown"}`: 0, "holdfast_audit_timestamp_seconds": 5,
	}, gatherGauges(t, audits))
}
