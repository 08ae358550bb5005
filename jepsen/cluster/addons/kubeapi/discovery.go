package kubeapi

import "strings"

// discover answers what there is, for the paths that say so.
func discover(path string) (answer any, known bool) {
	switch path = strings.Trim(path, "/"); path {
	case "version":
		return map[string]any{"major": "1", "minor": "35", "gitVersion": "v1.35.0"}, true
	case "api":
		return map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}, true
	case "apis":
		return groups(), true
	case "api/v1":
		return resourcesOf("v1"), true
	}
	group, ok := strings.CutPrefix(path, "apis/")
	if !ok {
		return nil, false
	}
	for _, g := range groupList() {
		if g["name"] == group {
			return g, true
		}
	}
	for _, r := range resources {
		if r.group != "" && r.groupVersion() == group {
			return resourcesOf(group), true
		}
	}
	return nil, false
}

func groups() any {
	return map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groupList()}
}

func groupList() (all []map[string]any) {
	seen := map[string]bool{"": true}
	for _, r := range resources {
		if seen[r.group] {
			continue
		}
		seen[r.group] = true
		v := map[string]any{"groupVersion": r.groupVersion(), "version": r.version}
		all = append(all, map[string]any{"kind": "APIGroup", "apiVersion": "v1", "name": r.group, "versions": []any{v}, "preferredVersion": v})
	}
	return all
}

func resourcesOf(groupVersion string) any {
	var list []any
	for _, r := range resources {
		if r.groupVersion() != groupVersion {
			continue
		}
		list = append(list, map[string]any{"name": r.name, "singularName": strings.ToLower(r.kind), "namespaced": r.namespaced, "kind": r.kind, "verbs": verbs})
		if r.status {
			list = append(list, map[string]any{"name": r.name + "/status", "singularName": "", "namespaced": r.namespaced, "kind": r.kind, "verbs": []string{"get", "patch", "update"}})
		}
	}
	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": list}
}

var verbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
