#ifndef PL_TESTS_SUITE_H
#define PL_TESTS_SUITE_H
/* Each test program is one suite for one unit: it defines make_suite() and includes this last. */
#include <check.h>
#include <stdlib.h>

static Suite *make_suite(void);

int main(void)
{
    SRunner *r = srunner_create(make_suite());
    srunner_run_all(r, CK_ENV);
    int n_failed = srunner_ntests_failed(r);
    srunner_free(r);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
