package admin

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Quorum is the arithmetic of voters of which some stop.
type Quorum struct {
	Voters int // of the configuration: those that stop stay in it
	Ready  int // voters that answer and are ready
	Left   int // of these, without those that stop
	Needed int // for a quorum
}

// QuorumWithout counts the voters, without those that stop. One that does not answer, or is not ready (its disk is full, it
// catches up, it diverged), counts as stopped already.
func QuorumWithout(members []Member, stops func(*Member) bool) Quorum {
	var q Quorum
	for i := range members {
		m := &members[i]
		if !m.Voter {
			continue
		}
		q.Voters++
		if m.Err != nil || m.Trouble != "" {
			continue
		}
		q.Ready++
		if !stops(m) {
			q.Left++
		}
	}
	q.Needed = q.Voters/2 + 1
	return q
}

// Holds tells whether those that are left decide.
func (q Quorum) Holds() bool { return q.Left >= q.Needed }

// Tolerated is how many more voters may stop, whichever they are.
func (q Quorum) Tolerated() int { return max(0, q.Left-q.Needed) }

func (q Quorum) String() string {
	return fmt.Sprintf("%d of %d voters would be left that are ready, and a quorum is %d", q.Left, q.Voters, q.Needed)
}

func (q Quorum) view() *adminpb.MemberQuorum {
	return &adminpb.MemberQuorum{Voters: uint32(q.Voters), Ready: uint32(q.Ready), Left: uint32(q.Left), Needed: uint32(q.Needed)} //nolint:gosec // counts
}

// MayStop says whether a member can be stopped now, and why: the voters that are left must be a quorum of those that are
// ready.
func MayStop(members []Member, m *Member) (may bool, why string) {
	q := QuorumWithout(members, func(other *Member) bool { return other.MemberID == m.MemberID })
	switch {
	case !m.Voter:
		return true, "it does not vote"
	case q.Holds() && m.Err != nil:
		return true, "it does not answer, and the others are a quorum"
	case q.Holds():
		return true, q.String()
	case m.Err != nil || m.Trouble != "":
		return false, "it is not ready, and the others are no quorum: " + q.String()
	}
	return false, q.String()
}
