package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/why"
)

// addPods names the pods that use each volume now.
func (k *kubeConnection) addPods(ctx context.Context, volumes *adminpb.VolumesResponse) error {
	api, _, err := k.source.Connect()
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	pods, err := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return exit.Wrap(exit.Unavailable, fmt.Errorf("list the pods: %w", err))
	}
	users := podsByClaim(pods.Items)
	for _, v := range volumes.GetVolumes() {
		if claim := v.GetClaim(); claim != nil {
			claim.Pods = users[claim.GetNamespace()+"/"+claim.GetName()]
		}
	}
	return nil
}

// podsByClaim are the pods that have not ended, by their claims' namespace and name.
func podsByClaim(pods []corev1.Pod) map[string][]string {
	users := map[string][]string{}
	for i := range pods {
		if phase := pods[i].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			continue
		}
		for _, claim := range why.ClaimsOf(&pods[i]) {
			key := pods[i].Namespace + "/" + claim
			users[key] = append(users[key], pods[i].Name)
		}
	}
	return users
}
