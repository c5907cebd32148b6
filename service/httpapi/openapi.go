package httpapi

import (
	_ "embed" // for openapi.yaml
	"net/http"

	"github.com/gin-gonic/gin"
)

// openAPI describes the interface to programs; a test holds the answers to it.
//
//go:embed openapi.yaml
var openAPI string

// openAPI serves the description.
func (a *API) openAPI(c *gin.Context) {
	a.writeBody(c, http.StatusOK, a.headers.yaml, []byte(openAPI))
}
