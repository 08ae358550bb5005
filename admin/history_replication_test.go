package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S42: a move that waits ends with a report, whose line in the history says so, for the volume and for its group.
func TestS42_HistoryShowsTheEndOfAMove(t *testing.T) {
	for _, ofGroup := range []bool{false, true} {
		w := newSitesEnv(t)
		id := w.acrossSites(1)
		group := w.groupAt("A", "shop", 1, id)
		source := func(verb, site string) *adminpb.PlanRequest {
			r := of(verb, site)
			if ofGroup {
				r.Volume, r.Group = "", group
			}
			return r
		}
		w.carryOut(source(enableReplication, "A"))
		w.publishAtA(id)
		w.connectReplicas(id, "n1", "n2")
		w.setUnreachable("n1")
		plan := w.carryOut(source(promoteSite, "B"))
		require.Equal(t, "moving to B", roleCell(w.relationOf(id)), planText(plan))
		require.Contains(t, planText(w.carryOut(source(promoteSite, "B"))), "waiting sever @")
		w.observeReplica("n2", id, fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE)
		require.Equal(t, "primary B", roleCell(w.relationOf(id)))
		require.Equal(t, "A", oustedCell(w.relationOf(id)))
		requests := []*adminpb.HistoryRequest{{Volume: string(id)}}
		if ofGroup {
			requests = append(requests, &adminpb.HistoryRequest{Group: group}, &adminpb.HistoryRequest{Group: "A/shop"})
		}
		for _, req := range requests {
			_, lines := w.history(req)
			require.Contains(t, lines, "site A replicates with site B: ok")
			require.Contains(t, lines, "site B becomes primary: ok")
			require.Contains(t, lines, "moved from site A to site B: ok")
		}
	}
}

// S44: the history says what a forced promotion gave up.
func TestS44_HistorySaysWhatWasGivenUp(t *testing.T) {
	w := newSitesEnv(t)
	id := w.replicated(1)
	w.lag(id)
	w.setUnreachable("n1")
	req := forced(promoteSite, "B")
	req.Reason = "A burnt"
	w.carryOut(req)
	require.Less(t, w.volume(id).RelationMember.GivenUp.Generation, w.volume(id).RelationMember.GivenUp.Index, "a generation of before")
	w.carryOut(of(demoteSite, "A"))
	w.carryOut(forced(resyncSite, "A"))
	w.carryOut(of(disableReplication, "A"))
	_, lines := w.history(&adminpb.HistoryRequest{Volume: "A/pvc-1"})
	for _, want := range []string{
		"site B becomes primary, by force if it must: A burnt; " + string(id) + ": writes that were acknowledged in generation ", "may be lost: ok",
		"the replicas of site A take part again; what was given up by force there is kept and discarded: ok",
		"site A gives up the role, or accepts that it lost it: ok", "site A ends the replication, or its claim of it: ok",
	} {
		require.Contains(t, lines, want)
	}
}

func TestSentencesOfReplication(t *testing.T) {
	report := func(fact *fsmpb.Observation) *fsmpb.Command {
		return &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{Observations: []*fsmpb.Observation{fact}}}}
	}
	for want, cmd := range map[string]*fsmpb.Command{
		"site A replicates with site B, to node n2": {Site: "A", Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{PeerSite: "B", PeerNode: "n2"}}},
		"the replicas of site default take part again; what was given up by force there is discarded, also where it cannot be kept": {Body: &fsmpb.Command_ResyncReplication{
			ResyncReplication: &fsmpb.ResyncReplication{Force: true, DiscardUnkept: true}}},
		"the replicas of site A take part again":                                    {Site: "A", Body: &fsmpb.Command_ResyncReplication{ResyncReplication: &fsmpb.ResyncReplication{}}},
		"the conversion to a replicated volume was not done in time, and is undone": {Body: &fsmpb.Command_CancelConversion{CancelConversion: &fsmpb.CancelConversion{}}},
		"what the replica has is kept before the resynchronisation":                 {Body: &fsmpb.Command_KeepReplica{KeepReplica: &fsmpb.KeepReplica{BeforeSync: true}}},
		"what the replica has is not kept before the resynchronisation: no room":    {Body: &fsmpb.Command_KeepReplica{KeepReplica: &fsmpb.KeepReplica{BeforeSync: true, Trouble: "no room"}}},
		"": {Body: &fsmpb.Command_KeepReplica{KeepReplica: &fsmpb.KeepReplica{}}},
		"the conversion to a replicated volume is undone: the device is what it was": report(&fsmpb.Observation{Fact: &fsmpb.Observation_ConversionUndone{ConversionUndone: &fsmpb.ConversionUndone{}}}),
		"the replica went back to kept copy hs-1":                                    report(&fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaReverted{ReplicaReverted: &fsmpb.ReplicaReverted{SnapshotId: "hs-1"}}}),
	} {
		require.Equal(t, want, sentenceOf(entryView(Entry{Index: 1, Command: cmd, Outcome: &fsmpb.Outcome{}})))
	}
}
