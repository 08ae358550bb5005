package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// The severities of a diagnosis, the worst first.
const (
	SeverityError   = "error"
	SeverityUnknown = "unknown"
	SeverityWarn    = "warn"
	SeverityOK      = "ok"
)

var severities = []string{SeverityError, SeverityUnknown, SeverityWarn, SeverityOK}

// ErrOlderBuild is the error of a host or member whose build does not look at itself.
var ErrOlderBuild = errors.New("not known: it runs an older build")

// HostChecks has hosts look at themselves.
type HostChecks interface {
	// CheckNode has a node's host look at itself and reach others, through whichever member has its session.
	CheckNode(ctx context.Context, node fsm.NodeID, reach ReachRequest) (HostCheck, error)
	// CheckMember has a member of the configuration look at its own host.
	CheckMember(ctx context.Context, memberID string) (HostCheck, error)
}

// HostCheck is what a host found of itself.
type HostCheck struct {
	Findings []*adminpb.Diagnosis // without subject
	// Reached is of a node's host the addresses that it is configured with, of a member's the other members' Raft addresses.
	Reached []Reached
	// Controllers and Hosts are what the host was asked to reach, and Listen whether it listened for the others; nil: it was not asked to.
	Controllers, Hosts []Reached
	Listen             *Listen
}

// Reached is whether an address was reached from a host.
type Reached struct {
	Address string
	Err     string // empty: it was
	Refused bool   // the host answered that nothing listens there
}

// hostAnswer is a host's check, or why there is none.
type hostAnswer struct {
	HostCheck
	err error
}

// patient is everything that the rules look at.
type patient struct {
	now     time.Time
	state   *fsm.State
	quorum  bool
	index   uint64 // of the last acknowledged entry, as far as it is known
	members []Member
	leader  string
	nodes   []*adminpb.Node // with what was measured
	// onMembers and onNodes are the hosts' own checks, by member id and by node.
	onMembers map[string]hostAnswer
	onNodes   map[string]hostAnswer
}

// doctorRules are what is looked at in a cluster. Each is a pure function.
var doctorRules = []func(*patient) []*adminpb.Diagnosis{
	checkLeader, checkMembers, checkZones, checkHashes, checkLevels, checkCheckpoint, checkClocks, checkMemberHosts, checkMemberPairs,
	checkNodes, checkNodeHosts, checkNodeReach, checkHostPairs, checkPools,
	checkVolumes, checkReplicaPairs, checkOperations, checkKeptCopies, checkRelations,
}

// Doctor looks at the cluster. Without a quorum it says so, and looks at what this member knows.
func (s *Server) Doctor(ctx context.Context, _ *adminpb.DoctorRequest) (*adminpb.DoctorResponse, error) {
	p := s.examine(ctx)
	resp := &adminpb.DoctorResponse{Index: p.state.Cluster().Index}
	for _, rule := range doctorRules {
		resp.Findings = append(resp.Findings, rule(p)...)
	}
	SortDiagnoses(resp.GetFindings())
	return resp, nil
}

// SortDiagnoses puts the worst first, then orders by subject and by what was found.
func SortDiagnoses(all []*adminpb.Diagnosis) {
	slices.SortStableFunc(all, func(a, b *adminpb.Diagnosis) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.GetSeverity()), slices.Index(severities, b.GetSeverity())),
			cmp.Compare(a.GetSubject(), b.GetSubject()), cmp.Compare(a.GetFound(), b.GetFound()))
	})
}

// examine gathers what the rules look at. Hosts and members look at themselves side by side.
func (s *Server) examine(ctx context.Context) *patient {
	p := &patient{now: s.Now()}
	reading, cancel := context.WithTimeout(ctx, statusTimeout)
	index, err := s.Cluster.Read(reading, func(*fsm.State) error { return nil })
	cancel()
	p.state, p.quorum, p.index = s.Cluster.Fork(), err == nil, index
	if err != nil {
		p.index = p.state.Cluster().Index
	}
	asking, cancel := context.WithTimeout(ctx, statusTimeout)
	p.members = s.Cluster.Members(asking, p.index)
	cancel()
	slices.SortFunc(p.members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MemberID, b.MemberID))
	})
	if p.quorum {
		p.leader = leader(p.members, slices.Max(append(mapSlice(p.members, func(m Member) uint64 { return m.Term }), 0)))
	}
	p.nodes = nodeViews(p.state)
	s.measure(ctx, p.nodes)
	s.checkHosts(ctx, p)
	return p
}

func (s *Server) checkHosts(ctx context.Context, p *patient) {
	p.onMembers, p.onNodes = map[string]hostAnswer{}, map[string]hostAnswer{}
	if s.HostChecks == nil {
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func(into map[string]hostAnswer, id string, check func() (HostCheck, error)) {
		wg.Go(func() {
			found, err := check()
			mu.Lock()
			defer mu.Unlock()
			into[id] = hostAnswer{found, err}
		})
	}
	for _, m := range p.members {
		if m.Err == nil {
			ask(p.onMembers, m.MemberID, func() (HostCheck, error) { return s.HostChecks.CheckMember(ctx, m.MemberID) })
		}
	}
	reach := p.reachRequests()
	for _, n := range p.nodes {
		if n.GetState() == fsm.NodeReachable.String() {
			ask(p.onNodes, n.GetId(), func() (HostCheck, error) {
				return s.HostChecks.CheckNode(ctx, fsm.NodeID(n.GetId()), reach[n.GetId()])
			})
		}
	}
	wg.Wait()
}

func diagnose(severity, subject, remedy, format string, args ...any) *adminpb.Diagnosis {
	return &adminpb.Diagnosis{Severity: severity, Subject: subject, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}

func fine(subject, format string, args ...any) *adminpb.Diagnosis {
	return diagnose(SeverityOK, subject, "", format, args...)
}

// one is a list of one diagnosis.
func one(d *adminpb.Diagnosis) []*adminpb.Diagnosis { return []*adminpb.Diagnosis{d} }

// WithoutFine leaves out what is as it should be, as `holdfast doctor` does without --all.
func WithoutFine(all []*adminpb.Diagnosis) []*adminpb.Diagnosis {
	return slices.DeleteFunc(slices.Clone(all), func(d *adminpb.Diagnosis) bool { return d.GetSeverity() == SeverityOK })
}

// WorstOf is the worst severity of a list, SeverityOK of an empty one.
func WorstOf(all []*adminpb.Diagnosis) string {
	worst := SeverityOK
	for _, d := range all {
		if slices.Index(severities, d.GetSeverity()) < slices.Index(severities, worst) {
			worst = d.GetSeverity()
		}
	}
	return worst
}

// histogramText lists how many durations were up to each bound, and above the one before.
func histogramText(all []*adminpb.DurationBucket) string {
	var texts []string
	for i, b := range all {
		bound := "up to " + boundText(b)
		if b.GetUpToSeconds() == 0 {
			bound = "longer"
			if i > 0 {
				bound = "above " + boundText(all[i-1])
			}
		}
		texts = append(texts, fmt.Sprintf("%s: %d", bound, b.GetCount()))
	}
	return strings.Join(texts, ", ")
}

func boundText(b *adminpb.DurationBucket) string {
	return secondsOf(b.GetUpToSeconds()).Round(time.Microsecond).String()
}
