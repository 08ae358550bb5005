package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Manifest is the PersistentVolume by which the Kubernetes cluster of a site knows a volume that was made
// elsewhere: with the same handle, without a claim, and bound to the site's nodes that have a replica. It
// is kept when its claim is deleted. Driver is the name that orchestrators know.
func Manifest(driver string, v *adminpb.Volume, nodes []*adminpb.Node, site string) (string, error) {
	var reach []string
	for _, r := range v.GetReplicas() {
		if slices.ContainsFunc(nodes, func(n *adminpb.Node) bool {
			return n.GetId() == r.GetNode() && fsm.SiteFrom(n.GetSite()) == fsm.SiteFrom(site)
		}) {
			reach = append(reach, r.GetNode())
		}
	}
	switch {
	case v.GetPhase() != "ready":
		return "", fmt.Errorf("volume %s is %s, not ready", v.GetId(), v.GetPhase())
	case len(reach) == 0:
		return "", fmt.Errorf("volume %s has no replica at site %s", v.GetId(), site)
	}
	return fmt.Sprintf(manifestText, cmp.Or(v.GetClaim().GetVolume(), v.GetId()), v.GetSizeBytes(), kubernetesModes(v.GetAccessModes()), volumeMode(v),
		driver, v.GetId(), fsTypeLine(v), fsm.TopologyKey, quoted(reach)), nil
}

const manifestText = `apiVersion: v1
kind: PersistentVolume
metadata:
  name: %q
spec:
  capacity:
    storage: "%d"
  accessModes: [%s]
  volumeMode: %s
  persistentVolumeReclaimPolicy: Retain
  csi:
    driver: %s
    volumeHandle: %s
%s  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: %s
          operator: In
          values: [%s]
`

func volumeMode(v *adminpb.Volume) string {
	if v.GetBlock() {
		return "Block"
	}
	return "Filesystem"
}

func fsTypeLine(v *adminpb.Volume) string {
	if fsType := cmp.Or(v.GetFsType(), v.GetUsedAs()); fsType != "" {
		return "    fsType: " + fsType + "\n"
	}
	return ""
}

// kubernetesModes are the access modes as Kubernetes names them, each once.
func kubernetesModes(modes []string) string {
	var all []string
	for _, mode := range modes {
		switch mode {
		case "single_node_single_writer":
			mode = "ReadWriteOncePod"
		case "multi_node_reader_only":
			mode = "ReadOnlyMany"
		case "multi_node_multi_writer", "multi_node_single_writer":
			mode = "ReadWriteMany"
		default:
			mode = "ReadWriteOnce"
		}
		if !slices.Contains(all, mode) {
			all = append(all, mode)
		}
	}
	return strings.Join(all, ", ")
}

func quoted(words []string) string {
	return strings.Join(mapSlice(words, func(w string) string { return fmt.Sprintf("%q", w) }), ", ")
}
