package admin

import (
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// addHealth adds what is known of each member's health to its view, in the members' order.
func (s *Server) addHealth(members []Member, views []*adminpb.Member) {
	var leading *Member
	commit := uint64(0)
	for i := range members {
		m := &members[i]
		if m.Err == nil && m.Role == "leader" && (leading == nil || m.Term > leading.Term) {
			leading = m
		}
		commit = max(commit, m.Commit)
	}
	cluster := s.cluster()
	for i := range members {
		m, v := &members[i], views[i]
		v.Stoppable, v.StopReason = MayStop(members, m)
		v.NonVoter = cluster.IsNonVoter(m.MemberID)
		if m.Err != nil {
			continue
		}
		v.Lag = commit - min(commit, m.Applied)
		v.DiskFreeBytes, v.SlowestSyncSeconds, v.Trouble = m.DiskFree, m.SlowestSync.Seconds(), m.Trouble
		if leading != nil {
			v.ClockOffsetSeconds = (m.ClockAhead - leading.ClockAhead).Seconds()
		}
	}
}

// cluster is what this member's state knows of the cluster; after a linearizable read it is as new as that.
func (s *Server) cluster() (c fsm.Cluster) {
	_ = s.Cluster.View(func(st *fsm.State) error { c = st.Cluster(); return nil }) // fn never fails
	return c
}

func votesCell(m *adminpb.Member) string {
	if m.GetNonVoter() && !m.GetVoter() {
		return "false (demoted)"
	}
	return fmt.Sprint(m.GetVoter())
}

// diskCell is empty for a member that does not say it.
func diskCell(m *adminpb.Member) string {
	if m.GetDiskFreeBytes() == 0 {
		return ""
	}
	return formatSize(m.GetDiskFreeBytes())
}

func syncCell(m *adminpb.Member) string {
	if m.GetSlowestSyncSeconds() == 0 {
		return ""
	}
	return secondsOf(m.GetSlowestSyncSeconds()).Round(10 * time.Microsecond).String()
}

func clockCell(m *adminpb.Member) string {
	if !m.GetReachable() {
		return ""
	}
	return secondsOf(m.GetClockOffsetSeconds()).Round(time.Millisecond).String()
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func stoppableCell(m *adminpb.Member) string {
	answer := "no"
	if m.GetStoppable() {
		answer = "yes"
	}
	return answer + ": " + m.GetStopReason()
}
