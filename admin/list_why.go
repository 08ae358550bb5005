package admin

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// WhyList lists the steps on the way to a usable volume.
var WhyList listing.Lister = &listing.List[*adminpb.WhyResponse, *adminpb.WhyStep]{
	Field: "steps",
	Rows:  (*adminpb.WhyResponse).GetSteps,
	Item:  func(s *adminpb.WhyStep) proto.Message { return s },
	ID:    func(s *adminpb.WhyStep) string { return s.GetStep() + "\x00" + s.GetAbout() },
	Columns: []listing.Column[*adminpb.WhyStep]{
		{Name: "STEP", Cell: func(s *adminpb.WhyStep) any { return s.GetStep() }},
		{Name: "ABOUT", Cell: func(s *adminpb.WhyStep) any { return s.GetAbout() }},
		{Name: "STATE", Cell: func(s *adminpb.WhyStep) any { return s.GetState() }},
		{Name: "WHAT", Cell: func(s *adminpb.WhyStep) any { return s.GetText() }},
		{Name: "REMEDY", Cell: func(s *adminpb.WhyStep) any { return s.GetRemedy() }},
	},
}
