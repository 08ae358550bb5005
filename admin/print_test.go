package admin

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestStatusAsJSONHasTheFieldsOfTheContract(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Print(&out, "json", &adminpb.StatusResponse{Leader: "c1", Term: 7, Members: []*adminpb.Member{
		{Id: "c1", MemberId: "m", Role: "leader", AppliedIndex: 1 << 60, StateHash: []byte{0xab, 0xcd}, HashIndex: 5, Reachable: true}}}))
	var doc struct {
		Leader  *string
		Term    *json.Number
		Members []map[string]any
	}
	decoder := json.NewDecoder(bytes.NewReader(out.Bytes()))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&doc))
	require.Equal(t, "c1", *doc.Leader)
	require.Equal(t, "7", doc.Term.String())
	m := doc.Members[0]
	require.Equal(t, json.Number("1152921504606846976"), m["applied_index"])
	require.Equal(t, json.Number("5"), m["hash_index"])
	require.Equal(t, "abcd", m["state_hash"])
	require.Equal(t, true, m["reachable"])
	require.Subset(t, m, map[string]any{"id": "c1", "member_id": "m", "role": "leader"})
}

func TestEmptyAnswersHaveAllFields(t *testing.T) {
	for name, tc := range map[string]struct {
		answer proto.Message
		want   []string
	}{
		"status": {&adminpb.StatusResponse{}, []string{`"leader": ""`, `"term": 0`, `"members": []`}},
		"audit":  {&adminpb.AuditResponse{}, []string{`"orphans": []`, `"missing": []`, `"pending": []`, `"checked": 0`}},
		"volume": {&adminpb.Volume{}, []string{`"operation": null`, `"replicas": []`, `"abnormal": false`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, Print(&out, "json", tc.answer))
			for _, part := range tc.want {
				require.Contains(t, out.String(), part)
			}
		})
	}
}

func TestYAMLEqualsJSON(t *testing.T) {
	answer := &adminpb.AuditResponse{Index: 3, Orphans: []*adminpb.Finding{{Node: "n1", Kind: "image", Id: "true", Path: "/x: y\n"}}}
	var text, block bytes.Buffer
	require.NoError(t, Print(&text, "json", answer))
	require.NoError(t, Print(&block, "yaml", answer))
	var fromJSON, fromYAML map[string]any
	require.NoError(t, yaml.Unmarshal(text.Bytes(), &fromJSON))
	require.NoError(t, yaml.Unmarshal(block.Bytes(), &fromYAML))
	require.Equal(t, fromJSON, fromYAML)
	require.Contains(t, block.String(), "index: 3\norphans:\n")
}

func TestDocumentsAreCompleteInEveryFormat(t *testing.T) {
	item := func(id string) *adminpb.Node { return &adminpb.Node{Id: id} }
	for name, tc := range map[string]struct {
		items map[string][]proto.Message
	}{
		"no items":        {},
		"one list":        {items: map[string][]proto.Message{"nodes": {item("a"), item("b")}}},
		"the second list": {items: map[string][]proto.Message{"volumes": {item("a"), item("b"), item("c")}}},
		"both lists":      {items: map[string][]proto.Message{"nodes": {item("a")}, "volumes": {item("b")}}},
	} {
		for _, format := range []string{"json", "yaml"} {
			t.Run(name+" as "+format, func(t *testing.T) {
				var out bytes.Buffer
				doc, err := NewDocument(&out, format, &adminpb.StateHeader{Index: 9}, "nodes", "volumes")
				require.NoError(t, err)
				for _, list := range []string{"nodes", "volumes"} {
					for _, i := range tc.items[list] {
						require.NoError(t, doc.Item(list, i))
					}
				}
				require.NoError(t, doc.End())
				var got map[string]any
				require.NoError(t, yaml.Unmarshal(out.Bytes(), &got), out.String())
				if format == "json" {
					require.True(t, json.Valid(out.Bytes()), out.String())
				}
				require.EqualValues(t, 9, got["index"])
				for _, list := range []string{"nodes", "volumes"} {
					require.Len(t, got[list], len(tc.items[list]), out.String())
					require.IsType(t, []any{}, got[list])
				}
			})
		}
	}
}

func TestTablesShowEveryAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answer proto.Message
		want   []string
	}{
		"status": {&adminpb.StatusResponse{Members: []*adminpb.Member{{Id: "c1", StateHash: []byte{1, 2}}}}, []string{"leader unknown", "c1", "0102"}},
		"volumes": {&adminpb.VolumesResponse{Index: 4, Volumes: []*adminpb.Volume{{Id: "hf-1", SizeBytes: 1 << 30, Phase: "ready",
			Publications: []*adminpb.Publication{{Node: "n1", Staged: true}}}}}, []string{"hf-1", "1 GiB", "n1 staged", "at index 4"}},
		"a volume's source and limits": {&adminpb.VolumesResponse{Volumes: []*adminpb.Volume{{Id: "hf-1", Source: &adminpb.Source{Snapshot: "hs-1"},
			Limits: &adminpb.Limits{ReadIops: 500, WriteBytesPerSecond: 1 << 20}}}}, []string{"hs-1", "r 500/s,w 1 MiB/s"}},
		"snapshots": {&adminpb.SnapshotsResponse{Index: 4, Snapshots: []*adminpb.Snapshot{{Id: "hs-1", Source: "hf-1", Phase: "ready", Missing: true}}},
			[]string{"hs-1", "hf-1", "ready", "file missing", "at index 4"}},
		"groups": {&adminpb.GroupSnapshotsResponse{Groups: []*adminpb.GroupSnapshot{{Id: "hgs-1", Phase: "aborting", Reason: "it froze too long"}}},
			[]string{"hgs-1", "aborting", "it froze too long"}},
		"a volume's group": {&adminpb.VolumesResponse{Volumes: []*adminpb.Volume{{Id: "hf-1", Group: "hg-1"}}}, []string{"hf-1", "hg-1"}},
		"volume groups": {&adminpb.VolumeGroupsResponse{Index: 4, Groups: []*adminpb.VolumeGroup{{Id: "hg-1", Name: "shop", Origin: "A", Members: []string{"hf-1", "hf-2"}}}},
			[]string{"hg-1", "shop", "A", "2", "at index 4"}},
		"a copy":                     {&adminpb.OperationsResponse{Operations: []*adminpb.Operation{{Snapshot: "hs-1", DoneBytes: 1 << 20, TotalBytes: 1 << 30}}}, []string{"hs-1", "1 MiB of 1 GiB"}},
		"nodes":                      {&adminpb.NodesResponse{Nodes: []*adminpb.Node{{Id: "n1", State: "reachable"}}}, []string{"n1", "reachable, adoption"}},
		"a cordoned node":            {&adminpb.NodesResponse{Nodes: []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true, Cordoned: true}}}, []string{"reachable, cordoned"}},
		"a node without replication": {&adminpb.NodesResponse{Nodes: []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true, NoNewReplicas: true}}}, []string{"reachable, no new replicas"}},
		"a fenced node":              {&adminpb.NodesResponse{Nodes: []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true, Fence: "fenced by"}}}, []string{"reachable, fenced"}},
		"fences": {&adminpb.FencesResponse{Fences: []*adminpb.Fence{{Cidr: "192.0.2.1/32", Owner: "operator", Hosts: []string{"n1/h"}, WaitsFor: "n2"}}},
			[]string{"192.0.2.1/32", "operator", "n1/h", "n2"}},
		"a plan": {&adminpb.PlanResponse{Index: 7, Summary: "evict n1: 1 to do", Steps: []*adminpb.PlanStep{{State: "todo", Action: "remove-replica", VolumeName: "pvc-1", Node: "n1"}}},
			[]string{"todo", "remove-replica", "pvc-1", "evict n1: 1 to do (at index 7)"}},
		"operations": {&adminpb.OperationsResponse{Operations: []*adminpb.Operation{{Id: "op-3", Kind: "create"}}}, []string{"op-3", "create"}},
		"audit": {&adminpb.AuditResponse{Missing: []*adminpb.Finding{{Node: "n1", Kind: "image"}}, Unknown: []*adminpb.Unknown{{Node: "n2", Detail: "away"}}},
			[]string{"missing", "image", "unknown", "away", "0 orphans, 1 missing"}},
		"a change":      {&adminpb.ChangeResponse{Message: "done", Index: 3}, []string{"done (index 3)"}},
		"history":       {&adminpb.HistoryHeader{Member: "c1", KnownFrom: 2, Index: 9}, []string{"from index 2 to 9"}},
		"a gap":         {&adminpb.HistoryEntry{Index: 8, Gap: true}, []string{"8", "not known"}},
		"an entry":      {&adminpb.HistoryEntry{Index: 8, Actor: "admin/a", Kind: "lose_node", Node: "n1"}, []string{"admin/a", "lose_node", "@n1", "ok"}},
		"a verdict":     {&adminpb.HistoryEntry{Kind: "outdate", Outcome: &fsmpb.Outcome{Verdict: fsmpb.Verdict_VERDICT_PEER_OUTDATED}}, []string{"outdate", "peer_outdated"}},
		"a refusal":     {&adminpb.HistoryEntry{Kind: "x", Outcome: &fsmpb.Outcome{Rejection: &fsmpb.Rejection{Message: "no room"}}}, []string{"rejected: no room"}},
		"anything else": {&adminpb.Node{Id: "n7"}, []string{"id: n7"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, Print(&out, "table", tc.answer))
			for _, part := range tc.want {
				require.Contains(t, out.String(), part)
			}
		})
	}
}
