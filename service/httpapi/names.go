package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/admin"

	"github.com/gin-gonic/gin"
)

// maxHolders is how many holders of a name an answer has at most.
const maxHolders = 1000

// NameItem is a name of worker IDs in JSON, over HTTP and from the command line.
type NameItem struct {
	Name       string `json:"name"`
	Epoch      string `json:"epoch"` // Unix ms, as a lease has it
	WorkerBits uint   `json:"workerBits"`
	SeqBits    uint   `json:"seqBits"`
	Hold       string `json:"hold"` // in seconds, such as 60s
	Leased     int64  `json:"leased"`
	Workers    int64  `json:"workers"` // how many worker IDs there are
}

// NewNameItem shows a name of which so many worker IDs are leased.
func NewNameItem(n model.Name, leased int64) NameItem {
	return NameItem{
		Name: n.Name, Epoch: strconv.FormatInt(n.EpochMs, 10), WorkerBits: n.WorkerBits, SeqBits: n.SeqBits,
		Hold: strconv.FormatFloat(n.Hold.Seconds(), 'f', -1, 64) + "s", Leased: leased, Workers: n.Workers(),
	}
}

// NewUseItem shows a name with how much of it is in use.
func NewUseItem(u model.NameUse) NameItem { return NewNameItem(u.Name, u.Leased) }

// holderItem is a worker ID of a name and its last lease. Times of IDs are Unix ms, as a lease
// has them.
type holderItem struct {
	WorkerID int64     `json:"workerId"`
	Instance string    `json:"instance"` // what its holder calls itself; may be empty
	Leased   bool      `json:"leased"`   // the lease has not ended
	After    string    `json:"after"`
	Until    string    `json:"until"`
	Granted  time.Time `json:"granted"`
	Renewed  time.Time `json:"renewed,omitzero"` // none: never
}

func newHolderItem(h model.NameHolder) holderItem {
	item := holderItem{
		WorkerID: h.WorkerID, Instance: h.Instance, Leased: h.Leased, Granted: time.UnixMilli(h.Granted).UTC(),
		After: strconv.FormatInt(h.After, 10), Until: strconv.FormatInt(h.Until, 10),
	}
	if h.Renewed != 0 {
		item.Renewed = time.UnixMilli(h.Renewed).UTC()
	}
	return item
}

// nameAnswer is a name; for a question its holders, and after a change from when on that counts.
type nameAnswer struct {
	Code int `json:"code"` // always 0
	NameItem
	Holders   []holderItem `json:"holders,omitzero"`
	Effective string       `json:"effective,omitempty"`
}

// changedName is the answer to a name that was made or deleted, of which nothing is leased.
func changedName(n model.Name, err error) (any, error) {
	return nameAnswer{NameItem: NewNameItem(n, 0), Effective: admin.Effect{New: true}.String()}, err
}

// HoldEffect says for people which leases have the hold that a name was given.
func HoldEffect(n model.Name, now time.Time) string {
	from := "now"
	if n.GrantHold(now.UnixMilli()) < n.Hold {
		from = time.UnixMilli(n.Note.LowMs).UTC().Format(time.RFC3339)
	}
	return "for leases that are granted or renewed from " + from + " on"
}

// routeNames adds the routes of names to the guarded group.
func (a *API) routeNames(g *gin.RouterGroup) {
	routeGet(g, "names", a.serveJSON(http.StatusOK, a.listNames))
	g.POST("names", a.serveJSON(http.StatusCreated, a.createName))
	routeGet(g, "names/*name", a.serveJSON(http.StatusOK, named(workerName, a.showName)))
	g.PATCH("names/*name", a.serveJSON(http.StatusOK, named(workerName, a.changeName)))
	g.DELETE("names/*name", a.serveJSON(http.StatusOK, named(workerName, a.deleteName)))
}

// workerName reads the name of worker IDs. Errors: model.ErrInvalidArgument.
func workerName(name string) (string, error) { return name, model.CheckName(name) }

func (a *API) listNames(ctx context.Context, _ *gin.Context) (any, error) {
	names, err := a.opts.Admin.Names(ctx)
	return list{Names: Items(names, NewUseItem)}, err
}

func (a *API) showName(ctx context.Context, _ *gin.Context, name string) (any, error) {
	use, err := a.opts.Admin.Name(ctx, name)
	if err != nil {
		return nil, err
	}
	holders, err := a.opts.Admin.Holders(ctx, name, maxHolders)
	return nameAnswer{NameItem: NewUseItem(use), Holders: Items(holders, newHolderItem)}, err
}

func (a *API) createName(ctx context.Context, c *gin.Context) (any, error) {
	o := readObject(c, "name", "epoch", "workerBits", "seqBits", "hold")
	o.need("name")
	name := model.Name{
		Name: value(o.text("name"), ""), EpochMs: value(o.instant("epoch"), admin.DefaultEpochMs),
		WorkerBits: uint(value(o.number("workerBits", 1, model.MaxNameWorkerBits), admin.DefaultWorkerBits)),
		SeqBits:    uint(value(o.number("seqBits", 1, model.MaxNameSeqBits), admin.DefaultSeqBits)),
		Hold:       value(o.hold("hold"), model.DefaultHold),
	}
	if o.err != nil {
		return nil, o.err
	}
	return changedName(a.opts.Admin.CreateName(ctx, a.actor(c), name))
}

func (a *API) changeName(ctx context.Context, c *gin.Context, name string) (any, error) {
	o := readObject(c, "hold")
	o.need("hold")
	hold := value(o.hold("hold"), 0)
	if o.err != nil {
		return nil, o.err
	}
	use, err := a.opts.Admin.ChangeName(ctx, a.actor(c), name, hold)
	return nameAnswer{NameItem: NewUseItem(use), Effective: HoldEffect(use.Name, a.now())}, err
}

func (a *API) deleteName(ctx context.Context, c *gin.Context, name string) (any, error) {
	confirm, err := confirmation(c, "DELETE /admin/names/"+url.PathEscape(name))
	if err != nil {
		return nil, err
	}
	return changedName(a.opts.Admin.DeleteName(ctx, a.actor(c), name, confirm))
}

// namesPage shows all names, and how much of each is leased.
func (a *API) namesPage() gin.HandlerFunc {
	name := func(u model.NameUse) string { return u.Name.Name }
	return byName(a, a.opts.Names, name, func(names []model.NameUse) list { return list{Names: Items(names, NewUseItem)} })
}

// holdersPage shows one name and its holders. What others guess costs nothing: only a name that
// is there is read, and remembered.
func (a *API) holdersPage() gin.HandlerFunc {
	names := once(a, a.opts.Names)
	find := func(ctx context.Context, name string) (model.NameUse, error) {
		all, err := names(ctx)
		i := slices.IndexFunc(all, func(u model.NameUse) bool { return u.Name.Name == name })
		if err == nil && i < 0 {
			err = fmt.Errorf("%w: %s", model.ErrUnknownName, quote(name))
		}
		if err != nil {
			return model.NameUse{}, err
		}
		return all[i], nil
	}
	var mu sync.Mutex
	pages := map[string]gin.HandlerFunc{}
	page := func(name string) gin.HandlerFunc {
		mu.Lock()
		defer mu.Unlock()
		if pages[name] == nil {
			pages[name] = a.page(func(ctx context.Context) ([]byte, error) {
				use, err := find(ctx, name)
				if err != nil {
					return nil, err
				}
				holders, err := a.opts.Holders(ctx, name, maxHolders)
				if err != nil {
					return nil, err
				}
				return encodeJSON(nameAnswer{NameItem: NewUseItem(use), Holders: Items(holders, newHolderItem)})
			}, a.writeJSON)
		}
		return pages[name]
	}
	return func(c *gin.Context) {
		name := c.Param("name")
		if _, err := find(c.Request.Context(), name); err != nil {
			a.failStore(c, err)
			return
		}
		page(name)(c)
	}
}
