package drain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// place is where a controller runs, as far as it is known.
type place int

const (
	elsewhere place = iota
	here
	anywhere // nothing says where
)

// controllers are those that run on the node, and those that may and must not stop.
func (f *Facts) controllers() (found []*adminpb.DrainFinding) {
	together := f.stopTogether()
	for _, m := range f.Members {
		at := f.placeOf(m)
		stops := m.GetStoppable() && m.GetReachable()
		if at == elsewhere || at == anywhere && m.GetStoppable() {
			continue
		}
		one := &adminpb.DrainFinding{Kind: "controller", About: m.GetId(), State: OK, Text: "the controller may stop: " + m.GetStopReason()}
		if why := cmp.Or(m.GetStopReason(), m.GetDetail()); !stops {
			one.State, one.Text = AtRisk, "the controller must not stop: "+why
			if at == anywhere {
				one.Text = fmt.Sprintf("whether the controller runs here is not known by its address %s, and it must not stop: %s", m.GetAddress(), why)
			}
			one.Remedy = "wait until `holdfast members` shows every controller ready"
		} else if together != "" && m.GetVoter() {
			one.State, one.Text, one.Remedy = AtRisk, together, "move all of them but one to other hosts first"
		}
		found = append(found, one)
	}
	return found
}

// stopTogether says why the controllers on the node must not stop all at once, of which each alone may.
func (f *Facts) stopTogether() string {
	var names []string
	voters, left := 0, 0
	for _, m := range f.Members {
		if !m.GetVoter() {
			continue
		}
		voters++
		if f.placeOf(m) == here {
			names = append(names, m.GetId())
		} else if m.GetReachable() && m.GetTrouble() == "" {
			left++
		}
	}
	if needed := voters/2 + 1; len(names) > 1 && left < needed {
		return fmt.Sprintf("the controllers %s run here, and without all of them %d of %d are left that are ready: a quorum is %d", strings.Join(names, " and "), left, voters, needed)
	}
	return ""
}

// placeOf goes by the controller's pod, and where there is none by its address.
func (f *Facts) placeOf(m *adminpb.Member) place {
	if f.Kube != nil {
		if pod := f.Kube.Controllers[m.GetId()]; pod != nil {
			return placeIf(pod.Spec.NodeName == f.Node)
		}
	}
	at, err := netip.ParseAddrPort(m.GetAddress())
	switch {
	case err != nil:
		return anywhere // a name: those of pods are
	case at.Addr().IsLoopback():
		return elsewhere // a cluster on one machine
	}
	return placeIf(slices.ContainsFunc(f.Nodes, func(n *adminpb.Node) bool {
		return n.GetId() == f.Node && slices.Contains(n.GetAddresses(), at.Addr().String())
	}))
}

func placeIf(isHere bool) place {
	if isHere {
		return here
	}
	return elsewhere
}
