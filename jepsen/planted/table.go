package main

import (
	"os"

	bug "github.com/holdfast-storage/holdfast/plantedbug"
)

// row is a bug, and who must find it: the named catcher first, then who is asked when that one does not.
type row struct {
	bug      bug.Bug
	catchers []string
	remedy   string // what is to be done about one that none finds
}

// catchers are all that rows name. A layer's arguments are its short form; of the simulation's, fewer seeds than those after which each
// boundary must have been crashed at, which says nothing of a bug.
var catchers = []catcher{
	{name: "sim", layer: true, program: "./jepsen/sim", args: []string{"-test.run=^TestSeeds$", "-sim.seeds=990"}},
	{name: "raftsim", layer: true, program: "./jepsen/raftsim", args: []string{"-test.run=^TestSchedules$", "-raftsim.schedules=60"}},
	{name: "fsm", program: "./fsm", args: []string{"-test.short"}},
	{name: "executor/plan", program: "./executor/plan", args: []string{"-test.short"}},
	{name: "executor/agent", program: "./executor/agent", args: []string{"-test.short"}},
	{name: "executor/records", program: "./executor/records", args: []string{"-test.short"}},
	{name: "executor/session", program: "./executor/session", args: []string{"-test.short"}},
	{name: "executor/loopfile", program: "./executor/loopfile"},
	{name: "raftnode", program: "./raftnode", args: []string{"-test.short"}},
	{name: "raftnode/store", program: "./raftnode/store"},
}

func catcherOf(name string) *catcher {
	for i := range catchers {
		if catchers[i].name == name {
			return &catchers[i]
		}
	}
	panic("no catcher is named " + name)
}

// exists tells whether the catcher's package is there.
func (c *catcher) exists() bool {
	_, err := os.Stat(c.program)
	return err == nil
}

// table has every bug but FaultInApply, which is a lever of jepsen/cluster and nothing to be found.
var table = []row{
	{bug: bug.RetryNotIdempotent, catchers: []string{"sim", "raftsim", "fsm"}},
	{bug: bug.PublishNotExclusive, catchers: []string{"sim", "fsm"}},
	{bug: bug.EpochUnchecked, catchers: []string{"sim", "fsm"},
		remedy: "a second line: each report that ends or completes a publication has a number, which a late one has below that of the next staging (S16)"},
	{bug: bug.EarlierBootAccepted, catchers: []string{"sim", "fsm"}},
	{bug: bug.DeleteBeforeGone, catchers: []string{"sim", "fsm"}},
	{bug: bug.DumpWithoutTable, catchers: []string{"sim", "fsm"}},
	{bug: bug.MapOrderInApply, catchers: []string{"sim", "fsm"}},
	{bug: bug.ReserveLeaked, catchers: []string{"sim", "fsm"}},
	{bug: bug.ExpandUnreserved, catchers: []string{"sim", "fsm"}},
	{bug: bug.DoublePlacement, catchers: []string{"sim", "fsm"}},
	{bug: bug.VolumeShrinks, catchers: []string{"sim", "fsm"}},
	{bug: bug.EarlierGeneration, catchers: []string{"sim", "fsm"}},
	{bug: bug.ConsistentPromoted, catchers: []string{"sim", "fsm"},
		remedy: "a second line: a disk that lacks writes is known as outdated or failed, which is decided before; with protocol A a primary that cannot be reached is not unpublished (S11)"},
	{bug: bug.LoserGoesOn, catchers: []string{"sim", "fsm"}},
	{bug: bug.DisklessOutdates, catchers: []string{"sim", "fsm"}},
	{bug: bug.OutdatedForgotten, catchers: []string{"sim", "fsm"}},
	{bug: bug.TakeoverNotAwaited, catchers: []string{"sim", "fsm"}},
	{bug: bug.FreezeNotAwaited, catchers: []string{"sim", "fsm"}},
	{bug: bug.ChangeUnannounced, catchers: []string{"sim", "fsm"}},
	{bug: bug.FenceKeepsGrants, catchers: []string{"sim", "fsm"}},
	{bug: bug.FencedHostServes, catchers: []string{"sim", "fsm"}},
	{bug: bug.ReclaimInUse, catchers: []string{"sim", "fsm"}},
	{bug: bug.StaleFollowerRead, catchers: []string{"raftsim", "raftnode"}},
	{bug: bug.AckBeforeCommit, catchers: []string{"raftsim", "raftnode"}},
	{bug: bug.WatchSkips, catchers: []string{"raftnode"}},
	{bug: bug.EntryAfterSnapshot, catchers: []string{"raftsim", "raftnode"}},
	{bug: bug.FsyncLeftOut, catchers: []string{"raftsim", "raftnode/store"}},
	{bug: bug.TermNotPersisted, catchers: []string{"raftsim", "raftnode/store"}},

	// Two orchestrators over a model of DRBD, and random histories of relations, are tests of fsm; L0 plays roles in one seed of ten.
	{bug: bug.PublishedAtSecondary, catchers: []string{"sim", "fsm"}},
	{bug: bug.RoleIndexUnchecked, catchers: []string{"fsm"}},
	{bug: bug.ForceOfferedTooEarly, catchers: []string{"fsm"}},
	{bug: bug.HealthyWhileBehind, catchers: []string{"fsm"}},
	{bug: bug.OustedSitePromoted, catchers: []string{"fsm"}},
	{bug: bug.MoveNotAwaited, catchers: []string{"fsm"}},
	{bug: bug.PartOfContentPromoted, catchers: []string{"fsm"}},
	{bug: bug.LivePrimaryForced, catchers: []string{"fsm"}},
	{bug: bug.GroupPartlyNewer, catchers: []string{"fsm"}},
	{bug: bug.DemotedInUse, catchers: []string{"sim", "fsm"}},
	{bug: bug.OtherSiteStaysCurrent, catchers: []string{"fsm"}},
	{bug: bug.ApartConnects, catchers: []string{"fsm"}},
	{bug: bug.ApartWithoutForce, catchers: []string{"fsm"}},
	{bug: bug.NotKeptBeforeSync, catchers: []string{"fsm"}},
	{bug: bug.ReadyTooEarly, catchers: []string{"fsm"}},
	{bug: bug.MemberGoesOnAlone, catchers: []string{"fsm"}},
	{bug: bug.GroupEnabledInPart, catchers: []string{"fsm"}},
	{bug: bug.ReplicaAtOtherSite, catchers: []string{"fsm"}},

	{bug: bug.OldKeyKept, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.HeaderLeft, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.FormatOnDoubt, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.FormattedBeforeMade, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.RemoveOnAbsence, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.TornClone, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.TornSnapshot, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.GroupTwoInstants, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.FreezeWithoutThaw, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.UnstageForgotten, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.OldGrantUsed, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.OutboxLost, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.RecordUnsynced, catchers: []string{"sim", "executor/records", "executor/agent"},
		remedy: "the simulation's record files are real ones, and a loss of power undoes nothing of them: it has to keep what was not synced apart"},
	{bug: bug.SequenceReused, catchers: []string{"sim", "executor/records", "executor/agent"}},
	{bug: bug.WakeupLost, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.DuplicateLoopDevice, catchers: []string{"executor/loopfile"}},
	{bug: bug.VerdictBeforeCommit, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.ResumeBeforeVerdict, catchers: []string{"sim", "executor/agent"}},
	{bug: bug.BitmapTrusted, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.ResyncWrongWay, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.InvalidateGoodSide, catchers: []string{"sim", "executor/plan", "executor/agent"}},
	{bug: bug.DiscardUnkept, catchers: []string{"sim", "executor/plan", "executor/agent"},
		remedy: "the simulation has to compare what a synchronisation overwrites on an outdated disk with the copies that its host kept (S9)"},
	{bug: bug.LoserResumed, catchers: []string{"sim", "executor/agent"}},
}
