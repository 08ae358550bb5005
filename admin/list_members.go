package admin

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// MemberList lists the controllers of the configuration with their health, StatusList those of a status with their hashes.
var (
	MemberList listing.Lister = memberList
	StatusList listing.Lister = statusList
)

var memberList = &listing.List[*adminpb.MembersResponse, *adminpb.Member]{
	Field: "members",
	Rows:  (*adminpb.MembersResponse).GetMembers,
	Item:  func(m *adminpb.Member) proto.Message { return m },
	ID:    (*adminpb.Member).GetMemberId,
	Columns: []listing.Column[*adminpb.Member]{
		{Name: "ID", Cell: func(m *adminpb.Member) any { return m.GetId() }},
		{Name: "MEMBER", Cell: func(m *adminpb.Member) any { return m.GetMemberId() }},
		{Name: "ADDRESS", Cell: func(m *adminpb.Member) any { return m.GetAddress() }},
		{Name: "ZONE", Cell: func(m *adminpb.Member) any { return m.GetZone() }},
		{Name: "ROLE", Cell: func(m *adminpb.Member) any { return m.GetRole() }},
		{Name: "VOTES", Cell: func(m *adminpb.Member) any { return votesCell(m) }},
		{Name: "APPLIED", Cell: func(m *adminpb.Member) any { return m.GetAppliedIndex() }},
		{Name: "LAG", Cell: func(m *adminpb.Member) any { return m.GetLag() }},
		{Name: "DISK FREE", Cell: func(m *adminpb.Member) any { return diskCell(m) }, Key: known((*adminpb.Member).GetDiskFreeBytes)},
		{Name: "SLOWEST SYNC", Cell: func(m *adminpb.Member) any { return syncCell(m) }, Key: known((*adminpb.Member).GetSlowestSyncSeconds)},
		{Name: "CLOCK", Cell: func(m *adminpb.Member) any { return clockCell(m) }, Key: known((*adminpb.Member).GetClockOffsetSeconds)},
		{Name: "REACHABLE", Cell: func(m *adminpb.Member) any { return m.GetReachable() }},
		{Name: "VERSION", Cell: func(m *adminpb.Member) any { return m.GetVersion() }},
		{Name: "STOPPABLE", Cell: func(m *adminpb.Member) any { return stoppableCell(m) }},
		{Name: "LAST INDEX", Wide: true, Cell: func(m *adminpb.Member) any { return indexCell(m.GetLastLogIndex()) }},
		{Name: "LAST TERM", Wide: true, Cell: func(m *adminpb.Member) any { return indexCell(m.GetLastLogTerm()) }},
		{Name: "LOG STORE", Wide: true, Cell: func(m *adminpb.Member) any { return m.GetLogStore() }},
		{Name: "TROUBLE", Wide: true, Cell: func(m *adminpb.Member) any { return m.GetTrouble() }},
		{Name: "DETAIL", Cell: func(m *adminpb.Member) any { return cmp.Or(m.GetDetail(), m.GetTrouble()) }},
	},
	Selectors: []listing.Selector[*adminpb.Member]{memberConditions(
		listing.Condition[*adminpb.Member]{Name: "lagging", Holds: func(m *adminpb.Member) bool { return m.GetLag() > 0 }},
		listing.Condition[*adminpb.Member]{Name: "stoppable", Holds: (*adminpb.Member).GetStoppable},
		listing.Condition[*adminpb.Member]{Name: "trouble", Holds: func(m *adminpb.Member) bool { return m.GetTrouble() != "" || !m.GetReachable() }},
	)},
	Foot: func(a *adminpb.MembersResponse) []string {
		return []string{fmt.Sprintf("leader %s (at index %d)", cmp.Or(a.GetLeader(), "unknown"), a.GetIndex())}
	},
}

func memberConditions(more ...listing.Condition[*adminpb.Member]) listing.Selector[*adminpb.Member] {
	return listing.Conditions(append([]listing.Condition[*adminpb.Member]{
		{Name: "reachable", Holds: (*adminpb.Member).GetReachable},
		{Name: "unreachable", Holds: func(m *adminpb.Member) bool { return !m.GetReachable() }},
		{Name: "leader", Holds: func(m *adminpb.Member) bool { return m.GetRole() == "leader" }},
		{Name: "voter", Holds: (*adminpb.Member).GetVoter},
		{Name: "nonvoter", Holds: func(m *adminpb.Member) bool { return !m.GetVoter() }},
	}, more...)...)
}

// known makes the key of a number that is zero where it is not known.
func known[R any, N int64 | float64](of func(R) N) func(R) any {
	return func(r R) any {
		if n := of(r); n != 0 {
			return n
		}
		return ""
	}
}

var statusList = &listing.List[*adminpb.StatusResponse, *adminpb.Member]{
	Field: "members",
	Rows:  (*adminpb.StatusResponse).GetMembers,
	Item:  func(m *adminpb.Member) proto.Message { return m },
	ID:    func(m *adminpb.Member) string { return cmp.Or(m.GetMemberId(), m.GetId()) },
	Columns: []listing.Column[*adminpb.Member]{
		{Name: "ID", Cell: func(m *adminpb.Member) any { return m.GetId() }},
		{Name: "ROLE", Cell: func(m *adminpb.Member) any { return m.GetRole() }},
		{Name: "APPLIED", Cell: func(m *adminpb.Member) any { return m.GetAppliedIndex() }},
		{Name: "HASH", Cell: func(m *adminpb.Member) any { hash := hashCell(m); return hash[:min(12, len(hash))] },
			Full: func(m *adminpb.Member) any { return hashCell(m) }},
		{Name: "AT", Cell: func(m *adminpb.Member) any { return m.GetHashIndex() }},
		{Name: "REACHABLE", Cell: func(m *adminpb.Member) any { return m.GetReachable() }},
		{Name: "MEMBER", Cell: func(m *adminpb.Member) any { return m.GetMemberId() }},
		{Name: "ADDRESS", Wide: true, Cell: func(m *adminpb.Member) any { return m.GetAddress() }},
		{Name: "VOTES", Wide: true, Cell: func(m *adminpb.Member) any { return m.GetVoter() }},
		{Name: "LAST INDEX", Wide: true, Cell: func(m *adminpb.Member) any { return indexCell(m.GetLastLogIndex()) }},
		{Name: "LAST TERM", Wide: true, Cell: func(m *adminpb.Member) any { return indexCell(m.GetLastLogTerm()) }},
		{Name: "VERSION", Wide: true, Cell: func(m *adminpb.Member) any { return m.GetVersion() }},
		{Name: "LOG STORE", Wide: true, Cell: func(m *adminpb.Member) any { return m.GetLogStore() }},
		{Name: "DETAIL", Cell: func(m *adminpb.Member) any { return m.GetDetail() }},
	},
	Selectors: []listing.Selector[*adminpb.Member]{memberConditions()},
	Head: func(a *adminpb.StatusResponse) []string {
		return []string{
			fmt.Sprintf("cluster %s, incarnation %d, feature level %d", cmp.Or(a.GetClusterId(), "unknown"), a.GetIncarnation(), a.GetFeatureLevel()),
			fmt.Sprintf("leader %s, term %d, index %d; %s, %s, %s", cmp.Or(a.GetLeader(), "unknown"), a.GetTerm(), a.GetIndex(),
				CountOf(a.GetVolumes(), "volume"), CountOf(a.GetSnapshots(), "snapshot"), CountOf(a.GetOperations(), "operation")),
			"",
		}
	},
}

func hashCell(m *adminpb.Member) string { return fmt.Sprintf("%x", m.GetStateHash()) }
