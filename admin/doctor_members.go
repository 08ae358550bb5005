package admin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// memberLag is how many entries a member may be behind.
	memberLag = 1000
	// checkpointLag is how many entries may pass without a checkpoint: some of the longest usual intervals.
	checkpointLag = 8192
	// clockApart is how far two members' clocks may be from each other.
	clockApart = 500 * time.Millisecond
)

func memberSubject(m Member) string { return "member " + memberName(m) }

func memberName(m Member) string { return cmp.Or(m.Name, m.Address, m.MemberID) }

func (p *patient) voters() (all, answered int) {
	for _, m := range p.members {
		if !m.Voter {
			continue
		}
		all++
		if m.Err == nil {
			answered++
		}
	}
	return all, answered
}

func checkLeader(p *patient) (out []*adminpb.Diagnosis) {
	voters, answered := p.voters()
	switch {
	case !p.quorum:
		out = append(out, diagnose(SeverityError, "cluster", "start the controllers that are down; see \"Controllers\" in OPERATIONS.md when they are lost",
			"there is no quorum: nothing can be changed, and what follows is what one controller knows"))
	case p.leader == "":
		out = append(out, diagnose(SeverityWarn, "cluster", "ask again; `holdfast status` shows who leads", "no member said that it leads"))
	default:
		out = append(out, fine("cluster", "%s leads, and %d of %d voters answer", p.leader, answered, voters))
	}
	switch {
	case voters == 1:
		out = append(out, diagnose(SeverityWarn, "cluster", "add two controllers with `holdfast members add`", "there is one voter only: with its disk the cluster's memory is lost"))
	case voters > 0 && voters%2 == 0:
		out = append(out, diagnose(SeverityWarn, "cluster", "add a controller with `holdfast members add`, or remove one", "%d voters outlive no more failures than %d do", voters, voters-1))
	}
	if p.quorum && voters > 1 && answered*2 > voters && (answered-1)*2 <= voters {
		out = append(out, diagnose(SeverityError, "cluster", "start the controllers that are down, or put new ones in their place with `holdfast members replace`",
			"%d of %d voters answer: one more failure, and nothing can be changed", answered, voters))
	}
	return out
}

// isNonVoter: it was demoted, and stays without a vote.
func (p *patient) isNonVoter(memberID string) bool {
	c := p.state.Cluster()
	return c.IsNonVoter(memberID)
}

func checkMembers(p *patient) (out []*adminpb.Diagnosis) {
	for _, m := range p.members {
		subject := memberSubject(m)
		switch {
		case m.Err != nil:
			out = append(out, diagnose(SeverityError, subject, "start it, or put a new controller in its place with `holdfast members replace`", "it does not answer: %s", m.Err))
		case m.Trouble != "":
			out = append(out, diagnose(SeverityError, subject, "see its log", "it does not serve: %s", m.Trouble))
		case m.Applied+memberLag < p.index:
			out = append(out, diagnose(SeverityWarn, subject, "ask again; if it stays behind, see how busy its disk and its processors are", "it is %d entries behind", p.index-m.Applied))
		case !m.Voter && !p.isNonVoter(m.MemberID):
			out = append(out, diagnose(SeverityWarn, subject, "ask again: it becomes a voter when it has caught up", "it has no vote yet"))
		default:
			out = append(out, fine(subject, "it has applied index %d", m.Applied))
		}
	}
	return out
}

// checkHashes compares the members' states at one index (S23).
func checkHashes(p *patient) (out []*adminpb.Diagnosis) {
	var first *Member
	for i := range p.members {
		m := &p.members[i]
		if m.Err != nil || len(m.Hash) == 0 || m.HashIndex != p.index {
			continue
		}
		switch {
		case first == nil:
			first = m
		case !bytes.Equal(first.Hash, m.Hash):
			out = append(out, diagnose(SeverityError, "cluster", "keep the files of both for study; the next checkpoint tells which one is wrong, and that one is replaced with `holdfast members replace`",
				"the states of %s and %s differ at index %d", memberName(*first), memberName(*m), p.index))
		}
	}
	if out == nil && first != nil {
		out = append(out, fine("cluster", "the members' states at index %d are equal", p.index))
	}
	return out
}

// checkLevels looks for builds that differ, and for a feature level that can be raised (S72).
func checkLevels(p *patient) (out []*adminpb.Diagnosis) {
	versions := map[string][]string{}
	least, known := uint32(fsm.MaxFeatureLevel), true
	add := func(who, version string, level uint32) {
		versions[version] = append(versions[version], who)
		least = min(least, level)
	}
	for _, m := range p.members {
		if m.Err != nil {
			known = false
			continue
		}
		add(memberName(m), m.Version, m.Level)
	}
	for n := range p.state.Nodes() {
		if n.State != fsm.NodeLost {
			add("node "+string(n.ID), n.Version, n.FeatureLevel)
		}
	}
	if len(versions) > 1 {
		out = append(out, diagnose(SeverityWarn, "cluster", "finish the roll: `holdfast upgrade status` shows who runs which build", "builds are mixed: %s", buildsText(versions)))
	}
	if drbd := p.replicationBuilds(); len(drbd) > 1 {
		out = append(out, diagnose(SeverityWarn, "cluster", "install the same release of DRBD on every storage host", "releases of DRBD are mixed: %s", buildsText(drbd)))
	}
	switch level := p.state.Cluster().FeatureLevel; {
	case known && level < least:
		out = append(out, diagnose(SeverityWarn, "cluster", "run `holdfast upgrade finish`, after which no older build can take part", "all understand feature level %d, and the cluster runs at %d", least, level))
	default:
		out = append(out, fine("cluster", "the cluster runs at feature level %d", level))
	}
	return out
}

// replicationBuilds are the storage hosts by the major release of DRBD that they registered with.
func (p *patient) replicationBuilds() map[string][]string {
	releases := map[string][]string{}
	for n := range p.state.Nodes() {
		if n.State != fsm.NodeLost && n.Replication.Version != "" {
			major, _, _ := strings.Cut(n.Replication.Version, ".")
			releases[major] = append(releases[major], "node "+string(n.ID))
		}
	}
	return releases
}

// buildsText lists builds, and the first of those that run each.
func buildsText(versions map[string][]string) string {
	var texts []string
	for version, who := range versions {
		slices.Sort(who)
		text := cmp.Or(version, "an unknown one") + " on " + who[0]
		if more := len(who) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

func checkCheckpoint(p *patient) []*adminpb.Diagnosis {
	at := p.state.Cluster().Checkpoint.Index
	if p.index > at+checkpointLag {
		return one(diagnose(SeverityWarn, "cluster", "see whether all members answer; the leader's log says why it records no checkpoint",
			"no majority has agreed on the state's hash since index %d, %d entries ago", at, p.index-at))
	}
	return one(fine("cluster", "a majority agreed on the state's hash at index %d", at))
}

// checkClocks compares the members' clocks, as far as the answers' way allows (S27).
func checkClocks(p *patient) (out []*adminpb.Diagnosis) {
	var clocks []Member
	for _, m := range p.members {
		if m.Err == nil && m.ClockKnown {
			clocks = append(clocks, m)
		}
	}
	if len(clocks) < 2 {
		return nil
	}
	slices.SortStableFunc(clocks, func(a, b Member) int { return cmp.Compare(a.ClockAhead, b.ClockAhead) })
	low, high := clocks[0], clocks[len(clocks)-1]
	if apart := high.ClockAhead - low.ClockAhead - low.ClockWithin - high.ClockWithin; apart > clockApart {
		return one(diagnose(SeverityWarn, "pair "+memberName(low)+"/"+memberName(high), "see what sets their clocks: `chronyc tracking` or `timedatectl timesync-status`",
			"the clock of %s is at least %s ahead of that of %s: a leader whose clock is wrong hands over", memberName(high), apart.Round(time.Millisecond), memberName(low)))
	}
	return one(fine("cluster", "the members' clocks agree within %s", clockApart))
}

// checkMemberHosts are what the members found of their own hosts.
func checkMemberHosts(p *patient) (out []*adminpb.Diagnosis) {
	for _, m := range p.members {
		if m.Err == nil {
			out = append(out, hostDiagnoses(memberSubject(m), p.onMembers, m.MemberID)...)
		}
	}
	return out
}

// hostDiagnoses gives a host's own findings their subject.
func hostDiagnoses(subject string, answers map[string]hostAnswer, id string) (out []*adminpb.Diagnosis) {
	answer, asked := answers[id]
	switch {
	case !asked:
		return one(diagnose(SeverityUnknown, subject, "ask again", "its host was not asked"))
	case errors.Is(answer.err, ErrOlderBuild):
		return one(diagnose(SeverityUnknown, subject, "upgrade it, or run `holdfast doctor --host` there", "its host is not known: it runs an older build, which does not look at itself"))
	case answer.err != nil:
		return one(diagnose(SeverityUnknown, subject, "run `holdfast doctor --host` there", "its host could not be asked: %s", Reason(answer.err)))
	}
	for _, f := range answer.Findings {
		out = append(out, &adminpb.Diagnosis{Severity: f.GetSeverity(), Subject: subject, Found: f.GetFound(), Remedy: f.GetRemedy(), Histogram: f.GetHistogram()})
	}
	return out
}

// checkMemberPairs looks for members that answer one member and not another.
func checkMemberPairs(p *patient) (out []*adminpb.Diagnosis) {
	const remedy = "open TCP %s to the host of %s: look for a firewall or a route between the two hosts, in this direction"
	answering, silent := map[string]string{}, map[string]string{} // names, by address
	asked := "this controller"
	for _, m := range p.members {
		if m.Err == nil {
			answering[m.Address] = memberName(m)
		} else {
			silent[m.Address] = memberName(m)
		}
		if m.Self {
			asked = memberName(m)
		}
	}
	for _, m := range p.members {
		reached := 0
		for _, r := range p.onMembers[m.MemberID].Reached {
			other, answers := answering[r.Address]
			switch {
			case r.Err == "" && silent[r.Address] != "":
				out = append(out, diagnose(SeverityError, "pair "+asked+"/"+silent[r.Address], fmt.Sprintf(remedy, r.Address, asked),
					"%s does not reach %s, which %s reaches", asked, silent[r.Address], memberName(m)))
			case r.Err == "":
				reached++
			case answers:
				out = append(out, diagnose(SeverityError, "pair "+memberName(m)+"/"+other, fmt.Sprintf(remedy, r.Address, memberName(m)),
					"%s does not reach %s, which this controller reaches: %s", memberName(m), other, r.Err))
			}
		}
		if reached > 0 {
			out = append(out, fine(memberSubject(m), "it reaches %s", CountOf(reached, "other member")))
		}
	}
	return out
}
