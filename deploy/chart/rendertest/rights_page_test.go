package rendertest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

const operationsPage = "../../OPERATIONS.md"

// rightRow is a row of the page's table: resources, their group, verbs, and where.
var rightRow = regexp.MustCompile(`(?m)^\| ([a-z/, ]+?)(?: \(([a-z0-9.]+)\))? \| ([a-z, ]+) \| (.+) \|$`)

// loopRoles are the roles of which the loop needs each rule; it also writes Events, by their newer API alone.
var loopRoles = []string{"holdfast-kube", "holdfast-kubelets", "holdfast-leases"}

// The page's table of what the loop may do has what its roles allow, and nothing else.
func TestRightsOfTheLoopAreThoseOfItsPage(t *testing.T) {
	list := objectsOfSet(t, "testdata/golden/everything-1.37.yaml")
	want := map[string]string{}
	for _, role := range all[*rbacv1.ClusterRole](list) {
		maps.Copy(want, rightsIn(role.Name, "cluster", role.Rules))
	}
	for _, role := range all[*rbacv1.Role](list) {
		where := "its namespace"
		if role.Namespace != Namespace {
			where = "`" + role.Namespace + "`"
		}
		maps.Copy(want, rightsIn(role.Name, where, role.Rules))
	}
	require.Equal(t, want, rightsOnPage(t))
}

// rightsIn are the loop's rights of a role: verbs by group, resource and where.
func rightsIn(role, where string, rules []rbacv1.PolicyRule) map[string]string {
	rights := map[string]string{}
	for _, rule := range rules {
		group, at := rule.APIGroups[0], where
		if !slices.Contains(loopRoles, role) && (role != "holdfast-events" || group != "events.k8s.io") {
			continue
		}
		if len(rule.ResourceNames) > 0 {
			at = "`" + strings.Join(rule.ResourceNames, ", ") + "` in " + where
		}
		for _, resource := range rule.Resources {
			rights[group+"/"+resource+" "+at] = strings.Join(slices.Sorted(slices.Values(rule.Verbs)), ", ")
		}
	}
	return rights
}

func rightsOnPage(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n### Metrics and rights\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rights := map[string]string{}
	for _, row := range rightRow.FindAllStringSubmatch(section, -1) {
		for resource := range strings.SplitSeq(row[1], ", ") {
			key := row[2] + "/" + resource + " " + row[4]
			require.NotContains(t, rights, key)
			rights[key] = strings.Join(slices.Sorted(slices.Values(strings.Split(row[3], ", "))), ", ")
		}
	}
	delete(rights, "/resource where") // the table's head
	return rights
}
