package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/report"
)

// What a run counts, in the words of the catalogue.
var (
	workCounts = map[catalog.Workload][]string{
		catalog.CreateVolume: {"call create"}, catalog.DeleteVolume: {"call delete"}, catalog.Publish: {"call publish", "call unpublish"},
		catalog.Stage: {"call stage", "call target"}, catalog.Expand: {"call expand", "call expand-node"}, catalog.Modify: {"call modify"},
		catalog.Snapshot: {"call snapshot"}, catalog.Clone: {"clone"}, catalog.GroupSnapshot: {"call group"}, catalog.Read: {"call list", "call get"},
		catalog.Replicated: {"replicated"}, catalog.Replace: {"call add-replica", "call remove-replica"}, catalog.TakeOver: {"call force-primary"},
		catalog.Encrypted: {"encrypted"}, catalog.RotateKey: {"replaced keys"}, catalog.TwoSites: {"call at the other site"}, catalog.Writers: {"acknowledged writes"}, catalog.Operator: {"call cordon"},
	}
	faultCounts = map[catalog.Fault][]string{
		catalog.CrashAtEffect: {"aimed crash", "fault effect meets a crash", "fault effect meets a loss of power"},
		catalog.HostReboot:    {"fault reboot"}, catalog.PowerLoss: {"fault power-loss"}, catalog.HostSilent: {"silent host"},
		catalog.ProposalDropped: {"fault proposal is dropped"}, catalog.ProposalDelayed: {"late proposal"}, catalog.ProposalDuplicated: {"fault proposal is duplicated"},
		catalog.OutcomeUnknown: {"fault proposal is applied, and its answer is lost"}, catalog.LeaderChange: {"fault change-leader"},
		catalog.MessageDelayed: {"late message"}, catalog.SessionCut: {"fault break-stream"}, catalog.LateRegistration: {"late registration"},
		catalog.StaleSource: {"stale source"}, catalog.ReplicationCut: {"fault cut-hosts"}, catalog.ResyncInterrupted: {"resync interrupted"},
		catalog.ReplicaDisk: {"pool errors"}, catalog.PoolDataFull: {"pool full"},
		catalog.ToolFails: {"fault effect fails"}, catalog.ToolHangs: {"fault effect hangs"}, catalog.ToolLies: {"fault effect lies"},
	}
	runCounts = map[catalog.Count]string{
		catalog.Acknowledgements: "answer OK", catalog.Elections: "elections", catalog.SnapshotInstalls: "dumps restored",
		catalog.UnknownOutcomes: "fault proposal is applied, and its answer is lost",
	}
	// checkKinds are the kinds of failure that a check ends a seed with; none where it is not of one seed.
	checkKinds = map[catalog.Check][]string{
		catalog.Invariants: {"state", "pool", "boot", "numbers"}, catalog.Acknowledged: {"answer"}, catalog.ReplayEqual: {"dump", "start"}, catalog.HashesEqual: {"hash"},
		catalog.NoDuplicate: {"names"}, catalog.Audit: {"world", "records"}, catalog.Stamps: {"stamps"}, catalog.NoLostWrite: {"stamps"}, catalog.OnePrimary: {"publish", "epoch"},
		catalog.InstantEqual: {"instant", "snapshot"}, catalog.FreshIsZero: {"world"}, catalog.FormatOnce: {"world"}, catalog.Keys: {"keys"}, catalog.Sites: {"sites"}, catalog.Liveness: {"liveness"},
		catalog.ReplaysEqual: nil, catalog.EffectsCovered: nil, catalog.NothingWasEmpty: nil,
	}
)

// record is the run as jepsen/report keeps it.
func (x *totals) record(name, seed string, took time.Duration, failures []string) *report.Run {
	run := report.New(catalog.Sim, name, seed)
	run.Began, run.Took = x.began.UTC(), took
	for work, names := range workCounts {
		run.CountWork(work, x.sum(names))
		run.NeedWork(work)
	}
	for fault, names := range faultCounts {
		run.CountFault(fault, x.sum(names))
		run.NeedFault(fault)
	}
	for count, name := range runCounts {
		run.SetCount(count, x.counts[name])
	}
	for check, kinds := range checkKinds {
		if len(kinds) > 0 {
			run.Check(check, x.steps, failureOf(kinds, failures))
		}
	}
	run.Check(catalog.EffectsCovered, len(x.points), nil) // reachEachBoundary says which are missing
	return run
}

func (x *totals) sum(names []string) (n int) {
	for _, name := range names {
		n += x.counts[name]
	}
	return n
}

// failureOf is the first failure of one of the kinds, nil for none.
func failureOf(kinds, failures []string) error {
	for _, failure := range failures {
		for _, kind := range kinds {
			if failureKind(failure) == kind {
				return errors.New(failure)
			}
		}
	}
	return nil
}

func TestTheCatalogueListsWhatThisLayerHas(t *testing.T) {
	var has catalog.Served
	for work := range workCounts {
		has.Workloads = append(has.Workloads, work)
	}
	for fault := range faultCounts {
		has.Faults = append(has.Faults, fault)
	}
	for check := range checkKinds {
		has.Checks = append(has.Checks, check)
	}
	for count := range runCounts {
		has.Counts = append(has.Counts, count)
	}
	require.Empty(t, catalog.Differences(catalog.Sim, has))
}
