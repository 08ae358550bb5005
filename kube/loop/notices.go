package loop

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// noticeReporter says in Events what is wrong with volumes, hosts and controllers.
type noticeReporter struct {
	Kube     kubernetes.Interface
	Notifier *Notifier
	// Namespace is the controllers'; ControllerSelector selects their pods.
	Namespace, ControllerSelector string
	// unanswered: nobody answered the last time either. An election, or a start of all controllers, is no news.
	unanswered bool
}

// report says what is wrong with volumes to their claims and pods, and what is wrong with hosts to their nodes.
func (r *noticeReporter) report(ctx context.Context, nodes []*adminpb.Node, volumes []*adminpb.Volume, c *cluster) error {
	known := byID(nodes)
	for i := range c.nodes {
		if n := known[c.nodes[i].Name]; n != nil {
			for _, notice := range plan.OfNode(n) {
				r.Notifier.Node(&c.nodes[i], notice)
			}
		}
	}
	if err := r.noticeVolumes(ctx, volumes, known, c); err != nil {
		return err
	}
	return r.noticePending(ctx, nodes, c)
}

func (r *noticeReporter) noticeVolumes(ctx context.Context, volumes []*adminpb.Volume, known map[string]*adminpb.Node, c *cluster) error {
	claims := map[string]*corev1.PersistentVolumeClaim{} // by volume
	for i := range c.pvs {
		if ref := c.pvs[i].Spec.ClaimRef; ref != nil {
			claims[c.pvs[i].Spec.CSI.VolumeHandle] = c.claims[ref.Namespace+"/"+ref.Name]
		}
	}
	told := map[string][]plan.Notice{} // by claim
	namespaces := map[string]bool{}
	for _, v := range volumes {
		claim := claims[v.GetId()]
		notices := plan.OfVolume(v, known)
		if claim == nil || len(notices) == 0 {
			continue
		}
		for _, notice := range notices {
			r.Notifier.Claim(claim, notice)
		}
		told[claim.Namespace+"/"+claim.Name], namespaces[claim.Namespace] = notices, true
	}
	for namespace := range namespaces {
		if err := r.noticePodsOf(ctx, namespace, told); err != nil {
			return err
		}
	}
	return nil
}

// noticePodsOf says it to the pods that use the claims, too.
func (r *noticeReporter) noticePodsOf(ctx context.Context, namespace string, told map[string][]plan.Notice) error {
	pods, err := r.Kube.CoreV1().Pods(namespace).List(ctx, cached)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		for _, claim := range claimsOf(&pods.Items[i]) {
			for _, notice := range told[namespace+"/"+claim] {
				notice.Note = "Volume of claim " + claim + ": " + notice.Note
				r.Notifier.Pod(&pods.Items[i], notice)
			}
		}
	}
	return nil
}

// noticePending says it to claims of our classes that wait, where no pools have room for them.
func (r *noticeReporter) noticePending(ctx context.Context, nodes []*adminpb.Node, c *cluster) error {
	classes, err := r.Kube.StorageV1().StorageClasses().List(ctx, cached)
	if err != nil {
		return fmt.Errorf("list storage classes: %w", err)
	}
	replicas := map[string]int{}
	for i := range classes.Items {
		if classes.Items[i].Provisioner == plan.Driver {
			replicas[classes.Items[i].Name] = plan.Replicas(classes.Items[i].Parameters)
		}
	}
	for _, claim := range c.claims {
		if claim.Status.Phase != corev1.ClaimPending || claim.Spec.StorageClassName == nil || replicas[*claim.Spec.StorageClassName] == 0 {
			continue
		}
		asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if notice, short := plan.NoCapacity(asked.Value(), replicas[*claim.Spec.StorageClassName], nodes); short {
			r.Notifier.Claim(claim, notice)
		}
	}
	return nil
}

// answered notes that somebody answers.
func (r *noticeReporter) answered() { r.unanswered = false }

// noticeNoQuorum says to the controllers' pods that nobody answers with a quorum, when it is called a second time in a row.
func (r *noticeReporter) noticeNoQuorum(ctx context.Context, why error) error {
	if code := status.Code(why); code != codes.Unavailable && code != codes.DeadlineExceeded {
		return nil // they answer
	}
	if !r.unanswered {
		r.unanswered = true
		return nil
	}
	pods, err := controllerPods(ctx, r.Kube, r.Namespace, r.ControllerSelector)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		r.Notifier.Pod(pod, plan.NoQuorum(why.Error()))
	}
	return nil
}
