package listing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// builds has items in two fields of the answer, and sentences below rows.
var builds = &listing.List[*adminpb.UpgradeResponse, build]{
	Fields:  []string{"members", "nodes"},
	FieldOf: func(b build) string { return b.field },
	Rows: func(a *adminpb.UpgradeResponse) (rows []build) {
		for _, m := range a.GetMembers() {
			rows = append(rows, build{m, "members"})
		}
		for _, n := range a.GetNodes() {
			rows = append(rows, build{n, "nodes"})
		}
		return rows
	},
	Item: func(b build) proto.Message { return b.Understanding },
	ID:   func(b build) string { return b.field + b.GetId() },
	Columns: []listing.Column[build]{
		{Name: "ID", Cell: func(b build) any { return b.GetId() }},
		{Name: "VERSION", Cell: func(b build) any { return b.GetVersion() }},
	},
	Below: func(b build, wide bool) (lines []string) {
		if b.GetMissing() != "" {
			lines = append(lines, b.GetMissing())
		}
		if wide {
			lines = append(lines, "wide\n")
		}
		return lines
	},
}

type build struct {
	*adminpb.Understanding

	field string
}

func mixedBuilds() *adminpb.UpgradeResponse {
	return &adminpb.UpgradeResponse{
		Members: []*adminpb.Understanding{{Id: "c2", Version: "v2"}, {Id: "c1", Version: "v1", Missing: "upgrade it"}},
		Nodes:   []*adminpb.Understanding{{Id: "n1", Version: "v0"}},
	}
}

func TestAnAnswerWithSeveralFieldsIsArrangedInEach(t *testing.T) {
	a := mixedBuilds()
	for range 2 {
		builds.Arrange(a, listing.View{SortBy: []string{"version"}})
		require.Equal(t, []string{"c1", "c2"}, []string{a.GetMembers()[0].GetId(), a.GetMembers()[1].GetId()})
		require.Len(t, a.GetMembers(), 2)
		require.Len(t, a.GetNodes(), 1)
		var fields []string
		for _, item := range builds.ItemsOf(a, listing.View{SortBy: []string{"version"}}) {
			fields = append(fields, item.Field)
		}
		require.Equal(t, []string{"nodes", "members", "members"}, fields)
	}
}

func TestWhatIsBelowARowIsAPartOfIt(t *testing.T) {
	for name, tc := range map[string]struct {
		wide bool
		want string
	}{
		"narrow": {false, "ID\tVERSION\nc2\tv2\nc1\tv1\n\t  upgrade it\nn1\tv0\n"},
		"wide":   {true, "ID\tVERSION\nc2\tv2\n\t  wide \nc1\tv1\n\t  upgrade it\n\t  wide \nn1\tv0\n\t  wide \n"},
	} {
		for range 2 {
			var out strings.Builder
			builds.Table(&out, mixedBuilds(), listing.View{Wide: tc.wide})
			require.Equal(t, tc.want, out.String(), name)
		}
	}
	changed := mixedBuilds()
	changed.Members[1].Missing = "start it"
	before, after := builds.RowsOf(mixedBuilds(), listing.View{}), builds.RowsOf(changed, listing.View{})
	require.Equal(t, before[0].Fixed, after[0].Fixed)
	require.NotEqual(t, before[1].Fixed, after[1].Fixed)
}
