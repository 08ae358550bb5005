package listing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

type operation = adminpb.Operation

var list = &listing.List[*adminpb.OperationsResponse, *operation]{
	Field: "operations",
	Rows:  (*adminpb.OperationsResponse).GetOperations,
	Item:  func(o *operation) proto.Message { return o },
	ID:    (*operation).GetId,
	Columns: []listing.Column[*operation]{
		{Name: "ID", Cell: func(o *operation) any { return o.GetId() }, Full: func(o *operation) any { return "whole " + o.GetId() }},
		{Name: "TOTAL SIZE", Cell: func(o *operation) any { return fmt.Sprint(o.GetTotalBytes(), " B") }, Key: func(o *operation) any { return o.GetTotalBytes() }},
		{Name: "AGE", Wide: true, Since: (*operation).GetStarted},
		{Name: "NAME", Cell: func(o *operation) any { return o.GetName() }},
	},
	Selectors: []listing.Selector[*operation]{
		{Flag: "node", Of: (*operation).GetNodes},
		listing.Conditions(
			listing.Condition[*operation]{Name: "failing", Holds: func(o *operation) bool { return o.GetLastError() != "" }},
			listing.Condition[*operation]{Name: "big", Holds: func(o *operation) bool { return o.GetTotalBytes() > 50 }}),
	},
	Foot: func(a *adminpb.OperationsResponse) []string { return []string{fmt.Sprint("at ", a.GetIndex())} },
}

var now = time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)

func answer() *adminpb.OperationsResponse {
	return &adminpb.OperationsResponse{Index: 7, Operations: []*operation{
		{Id: "op-2", TotalBytes: 900, Name: "n10", Nodes: []string{"a", "b"}, Started: now.Add(-time.Hour).Format(time.RFC3339)},
		{Id: "op-10", TotalBytes: 1000, Name: "n2", Nodes: []string{"a"}, LastError: "no room", Started: now.Add(-100 * time.Hour).Format(time.RFC3339)},
		{Id: "op-1", TotalBytes: 30, Nodes: []string{"b"}, LastError: "a\ttab and\x1b[2J"},
	}}
}

func ids(v listing.View) string {
	v.Now = now
	var all []string
	for range 2 {
		all = nil
		for _, item := range list.ItemsOf(answer(), v) {
			all = append(all, item.ID)
		}
	}
	return strings.Join(all, " ")
}

func TestRowsAreSortedByWhatCellsMean(t *testing.T) {
	for by, want := range map[string]string{
		"":                 "op-2 op-10 op-1",
		"id":               "op-1 op-2 op-10",
		"-id":              "op-10 op-2 op-1",
		"total-size":       "op-1 op-2 op-10",
		"-TOTAL-SIZE":      "op-10 op-2 op-1",
		"name":             "op-10 op-2 op-1", // an empty one is last
		"-name":            "op-2 op-10 op-1", // also when it is reversed
		"age":              "op-2 op-10 op-1",
		"-age":             "op-10 op-2 op-1",
		"name,-total-size": "op-10 op-2 op-1",
	} {
		v := listing.View{}
		if by != "" {
			v.SortBy = strings.Split(by, ",")
		}
		require.NoError(t, list.Check(v), by)
		require.Equal(t, want, ids(v), by)
	}
}

func TestRowsAreSelectedByAllValues(t *testing.T) {
	for name, tc := range map[string]struct {
		selected map[string][]string
		want     string
	}{
		"a node":                {map[string][]string{"node": {"b"}}, "op-2 op-1"},
		"both nodes":            {map[string][]string{"node": {"a", "b"}}, "op-2"},
		"either node":           {map[string][]string{"node": {"a,b"}}, "op-2 op-10 op-1"},
		"a node of no row":      {map[string][]string{"node": {"c"}}, ""},
		"a condition":           {map[string][]string{"condition": {"failing"}}, "op-10 op-1"},
		"two conditions":        {map[string][]string{"condition": {"failing", "big"}}, "op-10"},
		"a condition on a node": {map[string][]string{"condition": {"failing"}, "node": {"b"}}, "op-1"},
	} {
		require.Equal(t, tc.want, ids(listing.View{Select: tc.selected}), name)
	}
}

func TestWhatThereIsNotIsNamedWithWhatThereIs(t *testing.T) {
	const empty = "--node: a value is empty: name one, or several that are separated by commas"
	for _, tc := range []struct {
		view listing.View
		want string
	}{
		{listing.View{SortBy: []string{"-weight"}}, `--sort-by: there is no column "weight": choose from id, total-size, age, name`},
		{listing.View{Select: map[string][]string{"condition": {"big", "failing,well"}}}, `--condition: there is no condition "well": choose from failing, big`},
		{listing.View{Select: map[string][]string{"node": {""}}}, empty},
		{listing.View{Select: map[string][]string{"node": {"a,"}}}, empty},
	} {
		require.EqualError(t, list.Check(tc.view), tc.want)
	}
}

func TestATableHasWhatTheViewSays(t *testing.T) {
	for name, tc := range map[string]struct {
		view listing.View
		want string
	}{
		"narrow": {listing.View{Select: map[string][]string{"node": {"a"}}}, "ID\tTOTAL SIZE\tNAME\nop-2\t900 B\tn10\nop-10\t1000 B\tn2\nat 7\n"},
		"wide": {listing.View{Wide: true, SortBy: []string{"-age"}}, "ID\tTOTAL SIZE\tAGE\tNAME\n" +
			"whole op-10\t1000 B\t4d4h\tn2\nwhole op-2\t900 B\t1h0m\tn10\nwhole op-1\t30 B\t-\t-\nat 7\n"},
		"empty": {listing.View{Select: map[string][]string{"node": {"c"}}}, "ID\tTOTAL SIZE\tNAME\nat 7\n"},
	} {
		tc.view.Now = now
		for range 2 {
			var out strings.Builder
			list.Table(&out, answer(), tc.view)
			require.Equal(t, tc.want, out.String(), name)
		}
	}
}

func TestAnAnswerIsArrangedAsTheTableIs(t *testing.T) {
	a := answer()
	for range 2 {
		list.Arrange(a, listing.View{SortBy: []string{"id"}, Select: map[string][]string{"node": {"a"}}})
		require.Len(t, a.GetOperations(), 2)
		require.Equal(t, "op-2", a.GetOperations()[0].GetId())
		require.True(t, proto.Equal(answer().GetOperations()[1], a.GetOperations()[1]))
	}
	list.Arrange(a, listing.View{Select: map[string][]string{"node": {"c"}}})
	require.Empty(t, a.GetOperations())
}

func TestAnAgeIsNoChangeAndNoCellCommandsATerminal(t *testing.T) {
	early, late := listing.View{Wide: true, Now: now}, listing.View{Wide: true, Now: now.Add(time.Hour)}
	before, after := list.RowsOf(answer(), early), list.RowsOf(answer(), late)
	require.NotEqual(t, before[0].Cells, after[0].Cells)
	require.Equal(t, before[0].Fixed, after[0].Fixed)
	other := answer()
	other.Operations[0].Name = "n\t1\x1b[2J\n"
	require.NotEqual(t, before[0].Fixed, list.RowsOf(other, early)[0].Fixed)
	require.Equal(t, "n 1 [2J ", list.RowsOf(other, early)[0].Cells[3])
}
