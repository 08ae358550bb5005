package rendertest

import (
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
)

// Whose metrics are read from where is what the values say, and nothing beside it.
func TestMetricsAreOpenToTheNamespacesThatAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ labels, want tree }{
		"by default": {nil, tree{"kubernetes.io/metadata.name": "monitoring"}},
		"a label":    {tree{"team": "metrics"}, tree{"team": "metrics"}},
	} {
		policy := tree{"enabled": true, "nodeCIDRs": []any{"192.0.2.0/24"}}
		if tc.labels != nil {
			policy["metricsNamespaceLabels"] = tc.labels
		}
		made := all[*networkingv1.NetworkPolicy](objects(t, render(t, Release{KubeVersion: newest, Values: tree{"networkPolicy": policy}})))
		require.Len(t, made, 1)
		got := tree{}
		for key, value := range made[0].Spec.Ingress[2].From[0].NamespaceSelector.MatchLabels {
			got[key] = value
		}
		require.Equal(t, tc.want, got, name)
	}
}
