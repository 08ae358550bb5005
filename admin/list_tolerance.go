package admin

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// ToleranceList lists how many failures volumes tolerate.
var ToleranceList listing.Lister = toleranceList

var toleranceList = &listing.List[*adminpb.ToleranceResponse, *adminpb.VolumeTolerance]{
	Field: "volumes",
	Rows:  (*adminpb.ToleranceResponse).GetVolumes,
	Item:  func(v *adminpb.VolumeTolerance) proto.Message { return v },
	ID:    (*adminpb.VolumeTolerance).GetVolume,
	Columns: []listing.Column[*adminpb.VolumeTolerance]{
		{Name: "VOLUME", Cell: func(v *adminpb.VolumeTolerance) any { return v.GetVolume() }},
		{Name: "NAME", Cell: func(v *adminpb.VolumeTolerance) any { return v.GetName() }},
		{Name: "REPLICATED", Cell: func(v *adminpb.VolumeTolerance) any { return v.GetReplicated() }},
		{Name: "NODES", Cell: func(v *adminpb.VolumeTolerance) any { return toleranceCell(v.GetNode()) }},
		{Name: "ZONES", Cell: func(v *adminpb.VolumeTolerance) any { return toleranceCell(v.GetZone()) }},
		{Name: "SITES", Cell: func(v *adminpb.VolumeTolerance) any { return toleranceCell(v.GetSite()) }},
	},
	Selectors: []listing.Selector[*adminpb.VolumeTolerance]{listing.Conditions(
		listing.Condition[*adminpb.VolumeTolerance]{Name: "replicated", Holds: (*adminpb.VolumeTolerance).GetReplicated},
		listing.Condition[*adminpb.VolumeTolerance]{Name: "no-redundancy", Holds: func(v *adminpb.VolumeTolerance) bool { return v.GetNode().GetLoss() == 0 }},
	)},
	Foot: toleranceFoot,
}

func toleranceFoot(a *adminpb.ToleranceResponse) (lines []string) {
	if c := a.GetCluster(); c != nil {
		lines = append(lines,
			fmt.Sprintf("may stop without a loss / without ending use: nodes %s, zones %s, sites %s; controllers %d",
				toleranceCell(c.GetNode()), toleranceCell(c.GetZone()), toleranceCell(c.GetSite()), c.GetMembers()),
			fmt.Sprintf("%s without a second whole copy, %s with one copy by design; limited by %s",
				CountOf(c.GetWithoutRedundancy(), "replicated volume"), CountOf(c.GetLocal(), "volume"), cmp.Or(c.GetLimitedBy(), "none")))
	}
	return append(lines, atIndex(a)...)
}
