package scratch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// rights are what is needed beside making claims and pods, which is tried.
var rights = []authv1.ResourceAttributes{
	{Verb: "get", Resource: "pods"}, {Verb: "list", Resource: "pods"}, {Verb: "delete", Resource: "pods"}, {Verb: "get", Resource: "pods", Subresource: "log"},
	{Verb: "get", Resource: "persistentvolumeclaims"}, {Verb: "list", Resource: "persistentvolumeclaims"}, {Verb: "delete", Resource: "persistentvolumeclaims"},
}

// Check says why the plan's pods could not be made, in one line: the API server is asked as for a run, and makes nothing.
func (p *Pods) Check(ctx context.Context) error {
	var missing []string
	for _, right := range rights {
		right.Namespace = p.Namespace
		review := &authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		answer, err := p.API.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask what Kubernetes lets you do: %w", err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, strings.TrimSuffix(right.Verb+" "+right.Resource+"/"+right.Subresource, "/"))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("kubernetes does not let you %s in the namespace %s", strings.Join(missing, ", "), p.Namespace)
	}
	return p.try(ctx)
}

// try has the API server say what it says of a claim and a pod: rights, quotas, Pod Security, and whether there is such a namespace.
func (p *Pods) try(ctx context.Context) error {
	const run certify.Run = "0000000000000000"
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := p.API.CoreV1().PersistentVolumeClaims(p.Namespace).Create(ctx, p.claim(run, 0), dry); err != nil {
		return fmt.Errorf("create a claim: %w", err)
	}
	if _, err := p.API.CoreV1().Pods(p.Namespace).Create(ctx, p.writer(run, 0, p.Plan.Hosts[0]), dry); err != nil {
		return fmt.Errorf("create a pod: %w", err)
	}
	return nil
}

// NotOn says why a host gets no pod; empty: it may get one. The error is of a question that was not answered.
func (p *Pods) NotOn(ctx context.Context, host string) (string, error) {
	node, err := p.API.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "Kubernetes has no node of its name", nil
	case err != nil:
		return "", errors.New("look at node " + host + ": " + err.Error())
	case node.Spec.Unschedulable:
		return "its node is cordoned", nil
	}
	return "", nil
}
