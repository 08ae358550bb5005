package certify

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// claimName begins the names of the volumes that say that a run is under way.
const claimName = "claim-"

// ClaimName is that of a claim on the cluster. The first, 0, is there from before the run changes anything until its end: the log
// orders those of runs that begin at one moment. The later ones replace each other, so that one is always young: a run that leaves no
// young volume was killed.
func (r Run) ClaimName(n int) string { return r.Name(fmt.Sprint(claimName, n)) }

// IsClaim tells whether a volume's name is that of one of the run's claims.
func (r Run) IsClaim(name string) bool { return strings.HasPrefix(name, r.Name(claimName)) }

// FirstClaim is the claim of another run which was made before that of the run, or before nobody knows what; nil: the run was the
// first. What killed runs left is none.
func (r Run) FirstClaim(made string, volumes, left []*adminpb.Volume) *adminpb.Volume {
	own, err := fsm.ParseEpoch(made)
	killed := map[string]bool{}
	for _, v := range left {
		killed[v.GetId()] = true
	}
	for _, v := range volumes {
		run := runOf(v.GetName())
		if run == "" || run == r || killed[v.GetId()] || v.GetName() != run.ClaimName(0) {
			continue
		}
		at, errOther := fsm.ParseEpoch(v.GetCreated())
		if err != nil || errOther != nil || at.Index < own.Index {
			return v
		}
	}
	return nil
}
