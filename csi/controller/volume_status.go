package controller

import "github.com/holdfast-storage/holdfast/fsm"

// publishedNodes are those of the endpoint's site (S29).
func publishedNodes(v *fsm.Volume, hidden map[fsm.NodeID]bool) (nodes []string) {
	for _, p := range v.Publications() {
		if !p.Reclaim && !hidden[p.Node] { // no orchestrator knows of a reclaim
			nodes = append(nodes, string(p.Node))
		}
	}
	return nodes
}
