package certify

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// healthy are the facts of a cluster that may be drilled.
func healthy() *Facts {
	member := func(name string) *adminpb.Member {
		return &adminpb.Member{Id: name, Reachable: true, Voter: true, StateHash: []byte{1}, HashIndex: 7}
	}
	pool := func() []*adminpb.Pool {
		return []*adminpb.Pool{{CapacityBytes: 1 << 40, OvercommitPercent: 100}}
	}
	members := []*adminpb.Member{member("c1"), member("c2"), member("c3")}
	return &Facts{
		Status: &adminpb.StatusResponse{Leader: "c2", FeatureLevel: 3, Members: members}, Members: members, Reached: []string{"c1", "c2", "c3"},
		Nodes:   []*adminpb.Node{{Id: "n1", State: "reachable", Pools: pool()}, {Id: "n2", State: "reachable", Pools: pool()}},
		Volumes: []*adminpb.Volume{{Id: "hf-1", Name: "pvc-1"}}, Operations: []*adminpb.Operation{{State: "running"}},
		Audit: &adminpb.AuditResponse{Pending: []*adminpb.Finding{{Node: "n1"}}},
	}
}

func TestOnlyAHealthyClusterIsDrilled(t *testing.T) {
	require.Empty(t, healthy().Troubles())
	for name, tc := range map[string]struct {
		change func(*Facts)
		says   string
	}{
		"no leader":                {func(f *Facts) { f.Status.Leader = "" }, "no controller leads"},
		"an old level":             {func(f *Facts) { f.Status.FeatureLevel = 2 }, "feature level 2"},
		"a controller away":        {func(f *Facts) { f.Members[0].Reachable, f.Members[0].Detail = false, "timeout" }, "controller c1 does not answer: timeout"},
		"a controller not ready":   {func(f *Facts) { f.Members[0].Trouble = "disk full" }, "controller c1 is not ready: disk full"},
		"a controller not named":   {func(f *Facts) { f.Reached = f.Reached[1:] }, "controller c1 is not among those"},
		"one controller":           {func(f *Facts) { f.Members = f.Members[:1] }, "1 controllers vote"},
		"a host away":              {func(f *Facts) { f.Nodes[1].State = "unreachable" }, "host n2 is unreachable"},
		"a host in maintenance":    {func(f *Facts) { f.Nodes[1].Maintenance = 4 }, "host n2 is in maintenance"},
		"a host out of service":    {func(f *Facts) { f.Nodes[1].OutOfService = 4 }, "host n2 is out of service"},
		"a fenced host":            {func(f *Facts) { f.Nodes[1].Fence = "since 4" }, "host n2 is fenced: since 4"},
		"a volume at risk":         {func(f *Facts) { f.Volumes[0].Abnormal, f.Volumes[0].Condition = true, "one replica" }, "volume hf-1 is not as it should be: one replica"},
		"an operation failed":      {func(f *Facts) { f.Operations[0].State = "failed" }, "failed"},
		"an orphan":                {func(f *Facts) { f.Audit.Orphans = []*adminpb.Finding{{Node: "n1", Kind: "image", Id: "x"}} }, "image x on host n1 is an orphan"},
		"something missing":        {func(f *Facts) { f.Audit.Missing = []*adminpb.Finding{{Node: "n1", Kind: "image", Id: "x"}} }, "is missing"},
		"a host that said nothing": {func(f *Facts) { f.Audit.Unknown = []*adminpb.Unknown{{Node: "n1"}} }, "host n1 could not be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.change(f)
			require.Len(t, f.Troubles(), 1)
			require.Contains(t, f.Troubles()[0], tc.says)
		})
	}
}

func TestHashesAreOfOneIndexAndEqual(t *testing.T) {
	h, err := HashesOf("before", healthy().Status)
	require.NoError(t, err)
	require.Equal(t, Hashes{When: "before", Index: 7, Of: map[string]string{"c1": "01", "c2": "01", "c3": "01"}}, h)
	for name, change := range map[string]func(*adminpb.StatusResponse){
		"another state":        func(s *adminpb.StatusResponse) { s.Members[2].StateHash = []byte{2} },
		"another index":        func(s *adminpb.StatusResponse) { s.Members[1].HashIndex = 8 },
		"no hash yet":          func(s *adminpb.StatusResponse) { s.Members[0].StateHash = nil },
		"one is away":          func(s *adminpb.StatusResponse) { s.Members[0].Reachable = false },
		"there are no members": func(s *adminpb.StatusResponse) { s.Members = nil },
	} {
		s := healthy().Status
		change(s)
		_, err := HashesOf("before", s)
		require.Error(t, err, name)
	}
}

func TestEveryControllerLeadsTwiceAndTheFirstLeaderLast(t *testing.T) {
	f := healthy()
	require.Equal(t, []string{"c1", "c3", "c2", "c1", "c3", "c2"}, Handovers("c2", f.Members))
	f.Members[0].Voter = false
	require.Equal(t, []string{"c3", "c2", "c3", "c2"}, Handovers("c2", f.Members))
}

func TestAPlanNamesHostsWithRoomOnly(t *testing.T) {
	f := healthy()
	f.Nodes[0].Cordoned = true
	p, err := NewPlan("one", f, MinSize, 4, []*adminpb.Volume{{Id: "hf-9"}})
	require.NoError(t, err)
	require.Equal(t, []string{"n2"}, p.Hosts)
	require.Equal(t, []string{"n1: it is cordoned"}, p.LeftOut)
	require.Equal(t, []string{"hf-9"}, p.Leftovers)
	require.Contains(t, p.Text(), "first volume hf-9 is removed")
	f.Nodes[1].Pools[0].Measured, f.Nodes[1].Pools[0].FreeBytes = true, MinSize
	_, err = NewPlan("one", f, MinSize, 4, nil)
	require.ErrorContains(t, err, "no host has room")
	for _, burst := range []int{0, -1, MaxBurst + 1} {
		_, err = NewPlan("one", healthy(), MinSize, burst, nil)
		require.Error(t, err)
	}
	_, err = NewPlan("one", healthy(), MinSize-1, 4, nil)
	require.ErrorContains(t, err, "too small")
	for _, size := range []int64{MaxSize + 1, 1 << 60, math.MaxInt64} { // so many of them are below zero
		_, err = NewPlan("one", healthy(), size, 4, nil)
		require.ErrorContains(t, err, "too large")
	}
}

func TestOnlyWhatARunMadeIsALeftover(t *testing.T) {
	now := time.Unix(1000, 0)
	mine := Origin{Known: true, Actor: "admin/ann", Reason: testRun.Reason(), At: now.Add(-time.Minute)}
	used, young := mine, mine
	used.Used, young.At = "controller/c1", now.Add(time.Second)
	for name, tc := range map[string]struct {
		volume *adminpb.Volume
		origin Origin
		says   string // empty: it is one
	}{
		"a run's":              {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}, mine, ""},
		"an orchestrator's":    {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x")}, mine, "no operator made it"},
		"another form":         {&adminpb.Volume{Id: "hf-1", Name: Prefix + "x", MadeBy: "admin/ann"}, mine, "no scratch volume's"},
		"a long run":           {&adminpb.Volume{Id: "hf-1", Name: Prefix + "0" + string(testRun) + "-x", MadeBy: "admin/ann"}, mine, "no scratch volume's"},
		"an unknown origin":    {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}, Origin{}, "does not say any more"},
		"another reason":       {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}, Origin{Known: true, Actor: "admin/ann"}, "for another reason"},
		"another run's reason": {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}, Origin{Known: true, Actor: "admin/ann", Reason: Run("fedcba9876543210").Reason()}, "for another reason"},
		"one that was used":    {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}, used, "controller/c1 used it since"},
		"one of a run now":     {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}, young, "may be under way"},
		"another operator's":   {&adminpb.Volume{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/bob"}, mine, "for another reason"},
	} {
		t.Run(name, func(t *testing.T) {
			left, others := Leftovers([]*adminpb.Volume{tc.volume}, map[string]Origin{"hf-1": tc.origin}, now)
			require.Equal(t, tc.says == "", len(left) == 1)
			require.Equal(t, tc.says != "", len(others) == 1)
			if tc.says != "" {
				require.Contains(t, others[0], tc.says)
			}
		})
	}
}

// entry is one of a volume's history.
func entry(actor, reason, kind string, out *fsmpb.Outcome) *adminpb.HistoryResponse {
	return &adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: &adminpb.HistoryEntry{Kind: kind, Actor: actor, Outcome: out, At: "2026-01-02T03:04:05Z",
		Command: &fsmpb.Command{Call: &fsmpb.OperatorCall{Reason: reason}}}}}
}

func TestTheOriginIsTheFirstCreationThatWasAccepted(t *testing.T) {
	accepted := &fsmpb.Outcome{VolumeId: "hf-1"}
	var o Origin
	var term uint64
	for i, m := range []*adminpb.HistoryResponse{
		{Body: &adminpb.HistoryResponse_Header{}},
		entry("admin/a", "a", "create_volume", &fsmpb.Outcome{VolumeId: "hf-1", Rejection: &fsmpb.Rejection{}}),
		entry("admin/b", "b", "create_volume", &fsmpb.Outcome{VolumeId: "hf-2"}),
		entry("admin/c", "c", "publish_volume", accepted),
		entry("admin/d", "of admin/d", "create_volume", accepted),
		entry("admin/e", "e", "create_volume", accepted),
	} {
		if e := m.GetEntry(); e != nil {
			e.Term = uint64(i)
		}
		o, term = OriginOf(o, "hf-1", m), TermOf(term, "hf-1", m)
	}
	require.EqualValues(t, 4, term)
	require.Equal(t, Origin{Known: true, Actor: "admin/d", Reason: "of admin/d", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, o)
}

// TestWhatSomebodyUsedIsNoScratchVolumeAnyMore: it has content, or something was made of it; or nobody can tell.
func TestWhatSomebodyUsedIsNoScratchVolumeAnyMore(t *testing.T) {
	reason, accepted := testRun.Reason(), &fsmpb.Outcome{}
	for name, tc := range map[string]struct {
		then *adminpb.HistoryResponse
		ours bool
	}{
		"the run published it":              {entry("admin/ann", reason, "publish_volume", accepted), true},
		"its host reports":                  {entry("node/n1", "", "report", accepted), true},
		"it was asked for again":            {entry("admin/ann", reason, "create_volume", &fsmpb.Outcome{VolumeId: "hf-1"}), true},
		"a refusal":                         {entry("controller/c1", "", "publish_volume", &fsmpb.Outcome{Rejection: &fsmpb.Rejection{}}), true},
		"an orchestrator published it":      {entry("controller/c1", "", "publish_volume", accepted), false},
		"its operator, for himself":         {entry("admin/ann", "mine", "publish_volume", accepted), false},
		"it was mounted":                    {entry("node/n1", "", "stage_volume", accepted), false},
		"a snapshot":                        {entry("controller/c1", "", "create_snapshot", accepted), false},
		"a clone":                           {entry("controller/c1", "", "create_volume", &fsmpb.Outcome{VolumeId: "hf-2"}), false},
		"the log does not say what follows": {&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: &adminpb.HistoryEntry{Gap: true}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := OriginOf(Origin{}, "hf-1", entry("admin/ann", reason, "create_volume", &fsmpb.Outcome{VolumeId: "hf-1"}))
			for range 2 {
				o = OriginOf(o, "hf-1", tc.then)
			}
			left, others := Leftovers([]*adminpb.Volume{{Id: "hf-1", Name: testRun.Name("x"), MadeBy: "admin/ann"}}, map[string]Origin{"hf-1": o}, time.Now())
			require.Equal(t, tc.ours, len(left) == 1, others)
			require.Equal(t, !tc.ours, len(others) == 1)
		})
	}
}

func TestControllersAreRestartedOneAfterAnotherIfAsked(t *testing.T) {
	f := healthy()
	p, err := NewPlan("one", f, MinSize, 4, nil)
	require.NoError(t, err)
	require.Contains(t, p.Text(), "no process is stopped")
	require.Contains(t, Limits(p)[0], "no process was killed")
	volumes := p.Volumes
	p.Restart(f)
	require.Len(t, p.Restarts, len(p.Handovers)/rounds)
	require.Equal(t, f.Status.GetLeader(), p.Restarts[len(p.Restarts)-1])
	require.Equal(t, volumes+5*len(p.Restarts), p.Volumes)
	require.Contains(t, p.Text(), "are restarted, each in the middle of 4 creations")
	require.NotContains(t, Limits(p)[0], "no process was killed")
}

// Who did not lead may be restarted without an election.
func TestARestartNeedsAnElectionOnlyOfWhoLed(t *testing.T) {
	for name, tc := range map[string]struct {
		restarted string
		problems  int
	}{"a handover": {problems: 1}, "of who led": {restarted: "c1", problems: 1}, "of another one": {restarted: "c2"}} {
		t.Run(name, func(t *testing.T) {
			h := Handover{From: "c1", Restarted: tc.restarted, TermBefore: 3, TermAfter: 3}
			h.Judge(testRun, nil, "")
			require.Len(t, h.Problems, tc.problems)
		})
	}
}

func TestAHostThatIsGoneForGoodKeepsNobodyFromADrill(t *testing.T) {
	nodes := []*adminpb.Node{{Id: "n1", State: "reachable"}, {Id: "n2", State: "lost"}, {Id: "n3", State: "unreachable"}}
	hosts := Hosts(nodes)
	require.Len(t, hosts, 2)
	require.Equal(t, []string{"n1", "n3"}, []string{hosts[0].GetId(), hosts[1].GetId()})
	require.Equal(t, "n2", nodes[1].GetId(), "what was asked for is as it was")
}
